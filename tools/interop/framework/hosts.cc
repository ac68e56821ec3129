#include "tools/interop/framework/hosts.h"

#include <fmt/format.h>

#include <utility>

#include "sim/base/errors.h"

namespace pipesim {
namespace {

// The coordinate of a rank along an axis whose neighbours are `stride` ranks apart.
struct RankAxis {
  std::string_view name;
  std::int64_t degree, stride;
  [[nodiscard]] std::int64_t of(std::int64_t rank) const { return rank / stride % degree; }
};

std::vector<RankAxis> axes_of(const Recipe& recipe, bool of_experts) {
  std::vector<RankAxis> axes;
  std::int64_t stride = 1;
  for (const MeshAxis axis : recipe.order) {
    std::int64_t degree = 0;
    std::string_view name = name_of(axis);
    if (axis == MeshAxis::Pipeline) degree = recipe.pipeline;
    if (axis == MeshAxis::Tensor) degree = of_experts ? recipe.expert_tensor_degree() : recipe.tensor;
    if (axis == MeshAxis::Data) degree = of_experts ? recipe.expert_data() : recipe.data;
    if (axis == MeshAxis::Context && !of_experts) degree = recipe.context;
    if (axis == MeshAxis::Expert && of_experts) degree = recipe.expert;
    if (degree == 0) continue;
    if (of_experts && axis == MeshAxis::Tensor) name = "etp";
    if (of_experts && axis == MeshAxis::Data) name = "edp";
    if (!of_experts || axis != MeshAxis::Pipeline) axes.push_back({name, degree, stride});
    stride *= degree;
  }
  return axes;
}

}  // namespace

Hosts hosts_of(const Topology& topology) {
  Hosts hosts;
  const std::vector<std::string>& nodes = topology.parts().nodes;
  std::size_t next = 0;
  for (std::size_t node = 0; node < nodes.size(); ++node) {
    const auto devices = topology.devices_of_node(static_cast<std::int32_t>(node));
    if (devices.empty()) continue;
    if (hosts.names.empty()) hosts.devices_of_each = static_cast<std::int64_t>(devices.size());
    if (static_cast<std::int64_t>(devices.size()) != hosts.devices_of_each)
      throw InputError(fmt::format(
          "topology \"{}\": host {} has {} devices and {} has {}, allowed: as many on each, since "
          "launchers start as many processes on each",
          topology.name(), hosts.names.front(), hosts.devices_of_each, nodes[node], devices.size()));
    for (const DeviceId device : devices) {
      if (device.index() != next++)
        throw InputError(
            fmt::format("topology \"{}\": the devices of host {} do not follow one another, allowed: hosts "
                        "one after the other, since frameworks number ranks host by host",
                        topology.name(), nodes[node]));
      hosts.devices.push_back(topology.device(device).name);
    }
    hosts.names.push_back(nodes[node]);
  }
  return hosts;
}

std::string host_file(const Hosts& hosts) {
  std::string text;
  for (const std::string& name : hosts.names)
    text += fmt::format("{} slots={}\n", name, hosts.devices_of_each);
  return text;
}

std::string rank_table(const Hosts& hosts, const Recipe& recipe) {
  std::vector<RankAxis> axes = axes_of(recipe, false);
  if (recipe.divides_experts()) {
    for (const RankAxis& axis : axes_of(recipe, true)) axes.push_back(axis);
  }
  std::string text = "rank,host,local_rank,device";
  for (const RankAxis& axis : axes) text += fmt::format(",{}", axis.name);
  text += "\n";
  for (std::size_t rank = 0; rank < hosts.devices.size(); ++rank) {
    const auto r = static_cast<std::int64_t>(rank);
    text += fmt::format("{},{},{},{}", rank, hosts.names[static_cast<std::size_t>(r / hosts.devices_of_each)],
                        r % hosts.devices_of_each, hosts.devices[rank]);
    for (const RankAxis& axis : axes) text += fmt::format(",{}", axis.of(r));
    text += "\n";
  }
  return text;
}

std::string torchrun_text(const Hosts& hosts) {
  std::string text =
      fmt::format("torchrun --nnodes {} --nproc-per-node {}", hosts.names.size(), hosts.devices_of_each);
  if (hosts.names.size() == 1) return text + " --standalone";
  return text + fmt::format(
                    " \\\n  --node-rank \"${{NODE_RANK:?is the number of this host, from 0 to {}}}\""
                    " \\\n  --master-addr \"${{MASTER_ADDR:-{}}}\" --master-port \"${{MASTER_PORT:-29500}}\"",
                    hosts.names.size() - 1, hosts.names.front());
}

}  // namespace pipesim
