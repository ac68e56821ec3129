#include <fmt/format.h>

#include <filesystem>

#include "sim/base/errors.h"
#include "sim/base/files.h"
#include "tools/cli/command.h"
#include "tools/commands/execution_commands.h"
#include "tools/commands/options/import_options.h"
#include "topologies/files/nccl_topology.h"

namespace pipesim {
namespace {

ImportedTopology import_of_file(const Arguments& arguments) {
  if (arguments.has("virtual-devices"))
    throw UsageError("import: --virtual-devices goes without FILE: it is this machine's GPU that is divided");
  constexpr std::int64_t most_copies = 10'000;
  NcclImport import;
  import.source = arguments.operands()[1];
  import.name =
      arguments.has("name") ? arguments.text("name") : std::filesystem::path(import.source).stem().string();
  import.copies = arguments.integer("nodes", 1, most_copies);
  import.kind = imported_kind_of(arguments);
  return topology_of(parse_nccl_dump(read_file(import.source), import.source), import);
}

// As far as can be told without asking for GPUs.
void check_import_of_this_machine(const Arguments& arguments) {
  imported_kind_of(arguments);
  if (arguments.given("nodes"))
    throw UsageError("import: --nodes goes with FILE: this machine is not asked for its NICs");
}

int run_import(const Arguments& arguments, Streams& streams) {
  const std::string& what = arguments.operands()[0];
  if (what != "topology")
    arguments.refuse(
        fmt::format("found \"{0}\", allowed: topology, as in \"pipesim import topology {0}\"", what));
  if (arguments.operands().size() == 1) {
    check_import_of_this_machine(arguments);
    return run_import_of_this_machine(arguments, streams);
  }
  write_imported(import_of_file(arguments), arguments.operands()[1], arguments, streams);
  return 0;
}

}  // namespace

Command import_command() {
  return {
      .name = "import",
      .summary = "make a topology of this machine's GPUs, or of a dump of NCCL",
      .description =
          "Without FILE: describes this machine's GPUs, as CUDA, NVML and Linux report them. With FILE: "
          "reads an XML file of NCCL. Any program that uses NCCL writes one when "
          "NCCL_TOPO_DUMP_FILE=FILE.xml is set.\n\nThis machine's GPUs are described with memory, NVLinks, "
          "PCIe and processors. That needs libpipesim_cuda.so and a driver. NCCL's XML also names the NICs, "
          "so that several hosts can be joined. Nothing is measured: link rates are those that NCCL assumes, "
          "and other figures come from the GPU's kind, by name or PCI device id.\n\n--virtual-devices N "
          "divides the first GPU into N parts, with the multiprocessors that the driver gives to each. "
          "Copies between parts share one bus, the GPU's memory. The file says which figures come from a "
          "datasheet and which are derived.\n\nAssumptions are listed on stderr.",
      .operands = {{.name = "WHAT", .help = "topology", .choices = {{"topology"}}},
                   {.name = "FILE", .help = "an XML file of NCCL; default: this machine", .required = false}},
      .options = {{.name = "output",
                   .argument = "FILE",
                   .default_value = "",
                   .help = "write the topology to FILE instead of stdout",
                   .letter = 'o'},
                  {.name = "nodes",
                   .argument = "N",
                   .default_value = "1",
                   .help = "copies of the hosts of FILE, on one network"},
                  {.name = "virtual-devices",
                   .argument = "N",
                   .default_value = "",
                   .help = "N equal parts of this machine's first GPU",
                   .details = "For --backend cuda --virtual-devices."},
                  {.name = "device",
                   .argument = "KIND",
                   .default_value = "",
                   .help = "the kind of all GPUs, such as H200",
                   .details = "Overrides what their names or PCI device ids say."},
                  {.name = "name",
                   .argument = "NAME",
                   .default_value = "",
                   .help = "the topology's name; default: the file's or the host's"}},
      .examples = {{"pipesim import topology -o here.topology.json", "this machine"},
                   {"pipesim import topology --virtual-devices 8 -o eight.topology.json",
                    "eight parts of its first GPU"},
                   {"pipesim import topology docs/examples/node.xml --nodes 16 -o cluster.topology.json",
                    "sixteen nodes like the one on which \"NCCL_TOPO_DUMP_FILE=node.xml torchrun "
                    "--nproc-per-node 8 train.py\" ran"},
                   {"pipesim import topology docs/examples/node.xml --device H200",
                    "GPUs whose ids are unknown"}},
      .run = run_import};
}

}  // namespace pipesim
