#include <fmt/format.h>

#include <filesystem>
#include <optional>
#include <ostream>

#include "sim/base/errors.h"
#include "sim/base/files.h"
#include "sim/base/suggest.h"
#include "tools/commands.h"
#include "tools/machine_topology.h"
#include "topologies/device_kinds.h"
#include "topologies/nccl_topology.h"
#include "topologies/topology_json.h"

namespace pipesim {
namespace {

DeviceKind kind_named(const std::string& name) {
  if (const DeviceKind* kind = find_built_in_device_kind(name)) return *kind;
  const std::vector<std::string> names = built_in_device_kind_names();
  throw UsageError(fmt::format("option --device: unknown kind \"{}\"{}; allowed: {}", name,
                               did_you_mean(name, names), list_names(names)));
}

struct Import {
  std::string source;  // for messages
  ImportedTopology topology;
};

Import import_of_this_machine(const Arguments& arguments, const std::optional<DeviceKind>& kind) {
  if (arguments.given("nodes"))
    throw UsageError("import: --nodes goes with FILE: this machine is not asked for its NICs");
  const auto parts = arguments.has("virtual-devices")
                         ? static_cast<int>(arguments.integer("virtual-devices", 2, max_devices))
                         : 1;
  MachineDescription machine = this_machine();
  if (arguments.has("name")) machine.name = arguments.text("name");
  if (parts == 1 || machine.gpus.gpus.empty()) return {"this machine", topology_of(machine, kind)};
  return {"this machine", topology_of(machine, share_of_this_machine(parts), kind)};
}

Import import_of_file(const Arguments& arguments, const std::optional<DeviceKind>& kind) {
  if (arguments.has("virtual-devices"))
    throw UsageError("import: --virtual-devices goes without FILE: it is this machine's GPU that is divided");
  constexpr std::int64_t most_copies = 10'000;
  NcclImport import;
  import.source = arguments.operands()[1];
  import.name =
      arguments.has("name") ? arguments.text("name") : std::filesystem::path(import.source).stem().string();
  import.copies = arguments.integer("nodes", 1, most_copies);
  import.kind = kind;
  return {import.source, topology_of(parse_nccl_dump(read_file(import.source), import.source), import)};
}

int run_import(const Arguments& arguments, Streams& streams) {
  const std::string& what = arguments.operands()[0];
  if (what != "topology") throw UsageError(fmt::format("import: found \"{}\", allowed: topology", what));
  std::optional<DeviceKind> kind;
  if (arguments.has("device")) kind = kind_named(arguments.text("device"));
  const bool of_file = arguments.operands().size() > 1;
  const auto [source, imported] =
      of_file ? import_of_file(arguments, kind) : import_of_this_machine(arguments, kind);
  for (const std::string& note : imported.notes) streams.err << "pipesim: " << source << ": " << note << "\n";
  if (!arguments.has("output")) {
    streams.out << to_json(imported.topology);
    return 0;
  }
  write_file(arguments.text("output"), to_json(imported.topology));
  streams.out << fmt::format("{}: {} devices in {} node{}, {} links; \"pipesim topologies {}\" shows it\n",
                             arguments.text("output"), imported.topology.num_devices(),
                             imported.topology.num_nodes(), imported.topology.num_nodes() == 1 ? "" : "s",
                             imported.topology.parts().links.size(), arguments.text("output"));
  return 0;
}

}  // namespace

Command import_command() {
  return {
      .name = "import",
      .summary = "make a topology of this machine's GPUs, or of a dump of NCCL",
      .description =
          "Without FILE: asks CUDA, NVML and Linux for this machine's GPUs, with their memory, NVLinks, "
          "PCIe and processors; it needs libpipesim_cuda.so and a driver. With FILE: reads the XML that "
          "NCCL writes when any program that uses it runs with NCCL_TOPO_DUMP_FILE=FILE.xml, which names "
          "the NICs, too, so that several hosts can be joined. Nothing is measured: rates are those that "
          "NCCL counts with, and the rest of a GPU is its kind's, by name or PCI device id.\n\nWith "
          "--virtual-devices N it is the first GPU divided into N parts, by the multiprocessors that the "
          "driver gives each; copies between them share one bus, its memory. The sources in the file say "
          "which figures are a datasheet's and which are derived.\n\nWhat is "
          "not told is assumed, and said on stderr.",
      .operands = {{.name = "WHAT", .help = "topology"},
                   {.name = "FILE",
                    .help = "an XML file of NCCL; without it, this machine",
                    .required = false}},
      .options = {{.name = "output",
                   .argument = "FILE",
                   .default_value = "",
                   .help = "write the topology there; without it, to stdout",
                   .letter = 'o'},
                  {.name = "nodes",
                   .argument = "N",
                   .default_value = "1",
                   .help = "so many copies of the hosts of FILE, whose NICs are on one network"},
                  {.name = "virtual-devices",
                   .argument = "N",
                   .default_value = "",
                   .help = "so many equal parts of this machine's first GPU, for --backend cuda "
                           "--virtual-devices"},
                  {.name = "device",
                   .argument = "KIND",
                   .default_value = "",
                   .help = "what all GPUs are, instead of what their names or PCI device ids say: \"H200\""},
                  {.name = "name",
                   .argument = "NAME",
                   .default_value = "",
                   .help = "the topology's name; without it, the file's or the host's"}},
      .examples = {{"pipesim import topology -o here.json", "this machine"},
                   {"pipesim import topology --virtual-devices 8 -o eight.json",
                    "eight parts of its first GPU"},
                   {"pipesim import topology node.xml --nodes 16 -o cluster.json",
                    "sixteen nodes like the one on which \"NCCL_TOPO_DUMP_FILE=node.xml torchrun "
                    "--nproc-per-node 8 train.py\" ran"},
                   {"pipesim import topology node.xml --device H200", "GPUs whose ids are unknown"}},
      .run = run_import};
}

}  // namespace pipesim
