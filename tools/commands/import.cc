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
          "Without FILE: asks CUDA, NVML and Linux for this machine's GPUs. With FILE: reads the XML that "
          "NCCL "
          "writes when any program that uses it runs with NCCL_TOPO_DUMP_FILE=FILE.xml.\n\n"
          "This machine's GPUs come with their memory, NVLinks, PCIe and processors; that needs "
          "libpipesim_cuda.so and a driver. NCCL's XML names the NICs, too, so that several hosts can be "
          "joined. Nothing is measured: rates are those that NCCL counts with, and the rest of a GPU is its "
          "kind's, by name or PCI device id.\n\nWith "
          "--virtual-devices N it is the first GPU divided into N parts, by the multiprocessors that the "
          "driver gives each; copies between them share one bus, its memory. The sources in the file say "
          "which figures are a datasheet's and which are derived.\n\nWhat is "
          "not told is assumed, and said on stderr.",
      .operands = {{.name = "WHAT", .help = "topology", .choices = {{"topology"}}},
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
                   .help = "copies of the hosts of FILE, on one network"},
                  {.name = "virtual-devices",
                   .argument = "N",
                   .default_value = "",
                   .help = "so many equal parts of this machine's first GPU",
                   .details = "For --backend cuda --virtual-devices."},
                  {.name = "device",
                   .argument = "KIND",
                   .default_value = "",
                   .help = "what all GPUs are, such as H200",
                   .details = "Instead of what their names or PCI device ids say."},
                  {.name = "name",
                   .argument = "NAME",
                   .default_value = "",
                   .help = "the topology's name; without it, the file's or the host's"}},
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
