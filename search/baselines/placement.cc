#include "search/baselines/placement.h"

#include <algorithm>
#include <utility>

#include "sim/base/errors.h"

namespace pipesim {
namespace {

// By split: how much further the number of a shard is for the next part of it. Shards are numbered by copies,
// then by the parts of each factor; a later split of a factor cuts finer.
std::vector<std::size_t> strides_of(const ParallelConfig& config, std::span<const FactorSplit> splits) {
  std::vector<std::size_t> next(config.degrees.size() + 1, 1);  // [0] of copies, [1 + f] of factor f
  for (std::size_t f = config.degrees.size(); f-- > 0;)
    next[f] = next[f + 1] * static_cast<std::size_t>(config.degrees[f]);
  std::vector<std::size_t> strides(splits.size());
  for (std::size_t s = splits.size(); s-- > 0;) {
    std::size_t& stride = next[static_cast<std::size_t>(splits[s].factor + 1)];
    strides[s] = stride;
    stride *= static_cast<std::size_t>(splits[s].degree);
  }
  return strides;
}

}  // namespace

ParallelConfig arranged(const Operator& op, std::span<const FactorSplit> slowest_first,
                        std::span<const DeviceId> devices) {
  ParallelConfig config{std::vector<std::int32_t>(op.factors.size(), 1), 1, {devices.begin(), devices.end()}};
  for (const FactorSplit& s : slowest_first) {
    const auto degree = static_cast<std::int32_t>(s.degree);
    if (s.factor == ShardGrid::replica_axis)
      config.replicas *= degree;
    else
      config.degrees[static_cast<std::size_t>(s.factor)] *= degree;
  }
  const auto count = static_cast<std::int64_t>(devices.size());
  if (config.num_shards() != count) throw InternalError("as many devices as shards are needed");
  const std::vector<std::size_t> strides = strides_of(config, slowest_first);
  std::vector<std::int64_t> parts(slowest_first.size(), 0);  // of each split, those of the device at hand
  std::size_t shard = 0;
  for (const DeviceId device : devices) {
    config.devices[shard] = device;
    for (std::size_t s = slowest_first.size(); s-- > 0;) {
      shard += strides[s];
      if (++parts[s] < slowest_first[s].degree) break;
      shard -= strides[s] * static_cast<std::size_t>(std::exchange(parts[s], 0));
    }
  }
  return config;
}

bool can_split(const Operator& op, std::span<const FactorSplit> splits) {
  std::vector<std::int32_t> degrees(op.factors.size(), 1);
  for (const FactorSplit& s : splits) {
    if (s.factor != ShardGrid::replica_axis) {
      degrees[static_cast<std::size_t>(s.factor)] *= static_cast<std::int32_t>(s.degree);
    }
  }
  return !illegal_degrees(op, degrees);
}

FactorIndex major_factor(const IndexExpr& dim) { return dim.factors.empty() ? -1 : dim.factors.front(); }

std::optional<FactorIndex> sample_factor(const Operator& op) {
  const auto is_sample = [&](FactorIndex f) {
    return f >= 0 && op.factors[static_cast<std::size_t>(f)].kind == FactorKind::Sample;
  };
  for (const TensorUse& use : op.uses) {
    if (use.role == Role::Weight || use.role == Role::State || use.dims.empty()) continue;
    const FactorIndex f = major_factor(use.dims.front());
    if (is_sample(f)) return f;
  }
  for (FactorIndex f = 0; f < static_cast<FactorIndex>(op.factors.size()); ++f) {
    if (is_sample(f)) return f;
  }
  return std::nullopt;
}

FactorSplit sample_split(const Operator& op, std::int64_t degree) {
  const std::optional<FactorIndex> f = sample_factor(op);
  if (f) {
    const FactorSplit split{*f, degree};
    if (can_split(op, std::span(&split, 1))) return split;
  }
  return {ShardGrid::replica_axis, degree};
}

std::vector<DeviceId> sample_devices(const OperatorGraph& graph, const Topology& topology) {
  std::vector<DeviceId> devices;
  const auto available = static_cast<std::int64_t>(topology.num_devices());
  for (std::int64_t d = largest_divisor(graph.batch(), available); d > 0; --d)
    devices.emplace_back(devices.size());
  return devices;
}

std::int64_t largest_divisor(std::int64_t n, std::int64_t limit) {
  std::int64_t d = std::min(n, limit);
  while (n % d != 0) --d;
  return d;
}

std::int64_t parts_of(const Factor& factor, std::int64_t wanted) {
  const std::int64_t units = factor.size / factor.granule;
  for (std::int64_t d = std::min({units, factor.max_degree, wanted}); d > 1; --d) {
    if (wanted % d == 0 && (factor.uneven || units % d == 0)) return d;
  }
  return 1;
}

std::vector<DeviceId> DeviceMesh::column(std::int64_t member) const {
  std::vector<DeviceId> list;
  for (std::int64_t g = 0; g < groups; ++g)
    list.push_back(devices[static_cast<std::size_t>(g * members + member)]);
  return list;
}

std::int64_t smallest_node(const Topology& topology) {
  std::size_t fewest = topology.num_devices();
  for (std::size_t n = 0; n < topology.num_nodes(); ++n) {
    const std::size_t devices = topology.devices_of_node(static_cast<std::int32_t>(n)).size();
    if (devices > 0) fewest = std::min(fewest, devices);
  }
  return static_cast<std::int64_t>(fewest);
}

DeviceMesh node_mesh(const Topology& topology, std::int64_t members, std::int64_t batch) {
  DeviceMesh mesh{0, members, {}};
  const std::int64_t rows = smallest_node(topology) / members;
  for (std::size_t n = 0; n < topology.num_nodes(); ++n) {
    const auto node = topology.devices_of_node(static_cast<std::int32_t>(n));
    if (node.empty()) continue;
    mesh.devices.insert(mesh.devices.end(), node.begin(), node.begin() + rows * members);
    mesh.groups += rows;
  }
  mesh.groups = largest_divisor(batch, mesh.groups);
  mesh.devices.resize(static_cast<std::size_t>(mesh.groups * members));
  return mesh;
}

}  // namespace pipesim
