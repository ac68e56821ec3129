#include <fmt/format.h>

#include <filesystem>

#include "models/hugging_face.h"
#include "models/model_json.h"
#include "sim/base/errors.h"
#include "sim/base/files.h"
#include "sim/base/suggest.h"
#include "tools/analysis/inputs/model_and_topology.h"
#include "tools/cli/base/command.h"
#include "tools/cli/commands/execution_commands.h"
#include "tools/cli/commands/import_plan.h"
#include "tools/cli/options/import_options.h"
#include "topologies/files/nccl_topology.h"
#include "topologies/files/topology_matrix.h"

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
  const std::string& domain = arguments.choice("nvlink-domain", {"auto", "joined", "hosts"});
  import.domain = domain == "joined"  ? NvlinkDomain::Joined
                  : domain == "hosts" ? NvlinkDomain::Hosts
                                      : NvlinkDomain::Auto;
  const std::string text = read_file(import.source);
  if (!is_topology_matrix(text)) return topology_of(parse_nccl_dump(text, import.source), import);
  import.origin = "what nvidia-smi or rocm-smi told, " + import.source;
  return topology_of(parse_topology_matrix(text, import.source, import.kind), import);
}

// Checks what can be checked without asking for GPUs.
void check_import_of_this_machine(const Arguments& arguments) {
  imported_kind_of(arguments);
  if (arguments.given("nodes"))
    throw UsageError("import: --nodes goes with FILE: this machine is not asked for its NICs");
  if (arguments.given("nvlink-domain"))
    throw UsageError("import: --nvlink-domain goes with FILE: this machine is one host");
}

int write_model(const Arguments& arguments, const OperatorGraph& graph, const std::string& json,
                Streams& streams) {
  if (!arguments.has("output")) {
    streams.out << json;
    return 0;
  }
  write_file(arguments.text("output"), json);
  streams.out << fmt::format("{0}: {1}, {2} operators; \"pipesim models {0}\" shows it\n",
                             arguments.text("output"), graph.name(), graph.operators().size());
  return 0;
}

int import_onnx(const Arguments& arguments, const std::string& text, Streams& streams) {
  const OnnxModel model = open_onnx(text);
  for (const std::string& note : model.notes)
    streams.err << "pipesim: " << *model_file(text) << ": " << note << "\n";
  const std::string json =
      batch_key(text).empty()
          ? to_json(model.graph)
          : to_json_with_batch(model.graph, open_model(with_batch(text, 2 * model.graph.batch())));
  return write_model(arguments, model.graph, json, streams);
}

// Imports a model from FILE or FILE:key=value,….
int import_model(const Arguments& arguments, Streams& streams) {
  if (arguments.operands().size() == 1)
    throw UsageError("import: a model is read from a FILE, and there is none");
  for (const char* option : {"nodes", "nvlink-domain", "virtual-devices", "device", "name", "json"}) {
    if (arguments.given(option)) throw UsageError(fmt::format("import: --{} goes with topology", option));
  }
  const std::string& source = arguments.operands()[1];
  if (const auto file = model_file(source); file && is_onnx_file(*file))
    return import_onnx(arguments, source, streams);
  const std::string text = model_of_config(source);
  if (text == source)
    throw InputError(fmt::format(
        "{}: is no ONNX file, and no config.json of a model of Hugging Face: it has no \"model_type\"",
        source));
  for (const std::string& what : left_out_of_config(source))
    streams.err << "pipesim: " << *model_file(source) << ": " << what << "\n";
  const OperatorGraph graph = open_model(text);
  return write_model(arguments, graph,
                     to_json_with_batch(graph, open_model(with_batch(text, 2 * graph.batch()))), streams);
}

int run_import(const Arguments& arguments, Streams& streams) {
  const std::string& what = arguments.operands()[0];
  if (what == "plan") return import_plan(arguments, streams);
  for (const Option& option : import_plan_options()) {
    if (option.name != "json" && arguments.given(option.name))
      throw UsageError(fmt::format("import: --{} goes with plan", option.name));
  }
  if (what == "model") return import_model(arguments, streams);
  if (what != "topology")
    arguments.refuse(fmt::format(
        "found \"{0}\", allowed: topology, model or plan, as in \"pipesim import topology {0}\"", what));
  if (arguments.operands().size() == 1) {
    check_import_of_this_machine(arguments);
    return run_import_of_this_machine(arguments, streams);
  }
  write_imported(import_of_file(arguments), arguments.operands()[1], arguments, streams);
  return 0;
}

}  // namespace

Command import_command() {
  Command c{
      .name = "import",
      .summary = "read a topology, a model or a plan from files of others",
      .description =
          "A topology is read from this machine's GPUs, or from FILE: XML that NCCL wrote, as it does when "
          "NCCL_TOPO_DUMP_FILE=FILE.xml is set. A model is read from an ONNX file or a config.json of "
          "Hugging "
          "Face, a plan from a run of Megatron-LM, Megatron-Bridge or torchtitan.\n\nThis machine's "
          "GPUs are described as CUDA, NVML and Linux "
          "report them, with memory, NVLinks, PCIe and processors. That needs libpipesim_cuda.so and a "
          "driver. NCCL's XML also names the NICs, so that several hosts can be joined. Nothing is "
          "measured: link rates are those that NCCL assumes, and other figures come from the GPU's "
          "kind, by name or PCI device id.\n\nFiles that clouds ship for NCCL_TOPO_FILE name PCI devices "
          "only. "
          "What NCCL finds itself is added by their PCI ids: NVLinks or NVSwitches, and NICs. Hosts in one "
          "file with a common NVLink domain, as in an NVL72, become one node. Files of RCCL for AMD's GPUs "
          "are read too, and what \"nvidia-smi topo -m\" or \"rocm-smi --showtopo\" "
          "prints.\n\n--virtual-devices N divides the first GPU into N parts, "
          "with the multiprocessors that the driver gives to each. Copies between parts share one bus, "
          "the GPU's memory. The file says which figures come from a datasheet and which are "
          "derived.\n\nTypes of config.json that can be read: " +
          list_names(hugging_face_types()) +
          ". The file may be followed by keys of the "
          "zoo's model: config.json:sequence=4096. What the config asks for and the model does not "
          "have is listed on stderr.\n\nDimensions of an ONNX file that have no length get one as "
          "FILE.onnx:batch=32,sequence=128. Operators that no kind stands for become opaque, and are listed "
          "on stderr (docs/onnx.md).\n\nArguments of Megatron-LM stand in a file of their own, in a shell "
          "script that starts the run, or as --flag: value in YAML. Of a script, variables with plain "
          "values are understood. A run of torchtitan is a TOML file of release 0.2 or earlier, a function "
          "of "
          "constants in Python (FILE.py:FUNCTION), or a script that starts one; one of Megatron-Bridge is "
          "the YAML that a run saves, or a recipe in Python. The report says what the run "
          "is as a recipe, how long an iteration "
          "takes, and which recipe is the best for as many samples on the same devices, and "
          "why.\n\nAssumptions are listed on stderr.",
      .operands = {{.name = "WHAT",
                    .help = "topology, model or plan",
                    .choices = {{"topology"}, {"model"}, {"plan"}}},
                   {.name = "FILE",
                    .help = "XML of NCCL, text of nvidia-smi, ONNX, config.json, a framework's run",
                    .required = false}},
      .options = {{.name = "output",
                   .argument = "FILE",
                   .default_value = "",
                   .help = "write the topology, model or plan to FILE",
                   .letter = 'o'},
                  {.name = "nodes",
                   .argument = "N",
                   .default_value = "1",
                   .help = "copies of the hosts of FILE, on one network"},
                  {.name = "nvlink-domain",
                   .argument = "HOW",
                   .default_value = "auto",
                   .help = "whether the hosts of FILE share NVSwitches",
                   .choices = {{"auto",
                                "joined where their NVLinks lead to switches that no host has itself"},
                               {"joined", "all hosts of FILE and their copies are one domain and one node"},
                               {"hosts", "each host is its own"}}},
                  {.name = "virtual-devices",
                   .argument = "N",
                   .default_value = "",
                   .help = "N equal parts of this machine's first GPU",
                   .details = "For --backend cuda --virtual-devices."},
                  {.name = "device",
                   .argument = "KIND",
                   .default_value = "",
                   .help = "the kind of all GPUs, such as H200, or a .json file with one",
                   .details = "Overrides what their names or PCI device ids say. A file has the name and the "
                              "figures: {\"mine\": {\"peak\": {\"bfloat16\": \"300 TFLOP/s\"}, \"memory\": "
                              "\"48 GB\", \"memory_bandwidth\": \"900 GB/s\"}}."},
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
                    "GPUs whose ids are unknown"},
                   {"pipesim import model docs/examples/config.json -o llama.model.json",
                    "a model file of a config of Hugging Face"},
                   {"pipesim import plan llama.run/megatron.args --topology dgx-h100:1 -o yours.plan.json",
                    "how good is the run with these arguments?"}},
      .run = run_import};
  c.common = {"output", "nodes", "topology", "seconds"};
  for (Option& option : import_plan_options()) c.options.push_back(std::move(option));
  return c;
}

}  // namespace pipesim
