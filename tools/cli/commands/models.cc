#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <ostream>
#include <string_view>

#include "models/box.h"
#include "models/model_json.h"
#include "models/onnx/onnx_writer.h"
#include "models/zoo/zoo.h"
#include "sim/base/errors.h"
#include "sim/base/files.h"
#include "sim/base/suggest.h"
#include "taskgraph/plan/parallel_config.h"
#include "tools/analysis/inputs/model_and_topology.h"
#include "tools/analysis/inputs/model_work.h"
#include "tools/base/figures.h"
#include "tools/cli/base/command.h"
#include "tools/cli/commands/operator_loops.h"
#include "tools/cli/manual/model_reference.h"
#include "tools/cli/options/model_options.h"
#include "tools/render/base/table.h"

namespace pipesim {
namespace {

constexpr const char* kAllKinds = "all";

nlohmann::ordered_json zoo_json() {
  nlohmann::ordered_json models = nlohmann::ordered_json::array();
  for (const ZooModel& model : zoo_models()) {
    nlohmann::ordered_json options = nlohmann::ordered_json::object();
    for (const ZooOption& option : model.options) {
      options[option.key] = {
          {"default", option.default_value}, {"allowed", option.allowed()}, {"help", option.help}};
    }
    models.push_back({{"name", model.name},
                      {"description", model.description},
                      {"source", model.source},
                      {"options", options}});
  }
  return {{"models", models}};
}

std::string totals(const OperatorGraph& graph) {
  Bytes weights, activations;
  for (const Tensor& tensor : graph.tensors()) {
    if (tensor.kind == TensorKind::Weight) weights += tensor.bytes();
    if (tensor.kind == TensorKind::Activation) activations += tensor.bytes();
  }
  MeasuredTime measured;
  for (const Operator& op : graph.operators()) {
    if (!op.measured) continue;
    measured.forward += op.measured->forward;
    measured.backward += op.measured->backward;
  }
  Table table({{}, {}});
  table.add({"batch", std::to_string(graph.batch())});
  table.add({"operators", std::to_string(graph.operators().size())});
  table.add({"parameters", fmt::format("{} ({})", pretty_count(graph.parameter_count()), pretty(weights))});
  if (const std::int64_t frozen = graph.frozen_parameter_count(); frozen > 0)
    table.add({"trained", pretty_count(graph.parameter_count() - frozen)});
  table.add({"activations", pretty(activations)});
  table.add({"forward", pretty(graph.forward_flops())});
  if (measured != MeasuredTime{}) {
    table.add({"measured",
               fmt::format("forward {}, backward {}", pretty(measured.forward), pretty(measured.backward))});
  }
  table.add({"fingerprint", graph.fingerprint()});
  return table.str(2);
}

std::string work_by_kind(const OperatorGraph& graph) {
  struct Sum {
    std::int64_t operators = 0, parameters = 0;
    Flops flops;
  };
  std::map<std::string, Sum> sums;
  const std::vector<OperatorWork> work = work_of_operators(graph);
  for (std::size_t i = 0; i < work.size(); ++i) {
    Sum& sum = sums[graph.operators()[i].kind];
    ++sum.operators;
    sum.parameters += work[i].parameters;
    sum.flops += work[i].forward;
  }
  std::vector<std::pair<std::string, Sum>> rows(sums.begin(), sums.end());
  std::stable_sort(rows.begin(), rows.end(),
                   [](const auto& a, const auto& b) { return a.second.flops > b.second.flops; });
  Table table({{"kind"},
               {"operators", Align::Right},
               {"parameters", Align::Right},
               {"forward", Align::Right},
               {"share", Align::Right}});
  const double all = std::max(graph.forward_flops().value, 1.0);
  for (const auto& [kind, sum] : rows) {
    table.add({kind, std::to_string(sum.operators), pretty_count(sum.parameters), pretty(sum.flops),
               percent(sum.flops.value / all)});
  }
  return table.str(2);
}

std::string operators_table(const OperatorGraph& graph) {
  Table table({{"operator"}, {"kind"}, {"parameters", Align::Right}, {"forward", Align::Right}, {"factors"}});
  const std::vector<OperatorWork> work = work_of_operators(graph);
  for (std::size_t i = 0; i < work.size(); ++i) {
    const Operator& op = graph.operators()[i];
    table.add(
        {op.name, op.kind, pretty_count(work[i].parameters), pretty(work[i].forward), factors_text(op)});
  }
  return table.str(2);
}

std::string options_table(const ZooModel& model) {
  Table table({{}, {}, {}});
  for (const ZooOption& option : model.options)
    table.add({option.key + "=" + option.default_value, option.allowed(), option.help});
  return table.str(2);
}

// The sizes that a model file names.
std::string sizes_text(const std::string& file) {
  const ModelFileSizes own = model_file_sizes(file);
  if (own.sizes.empty()) return "";
  Table table({{}, {}});
  for (const NamedSize& s : own.sizes)
    table.add({s.value == 0 ? s.name : fmt::format("{}={}", s.name, s.value),
               s.name == own.batch ? "the batch, see --batch" : ""});
  return fmt::format("\nSizes in the file, for {}:size=N,… or --set size=N\n", file) + table.str(2);
}

const ZooModel* zoo_model(const std::string& text) {
  const auto models = zoo_models();
  const std::string name = text.substr(0, text.find(':'));
  const auto found =
      std::find_if(models.begin(), models.end(), [&](const ZooModel& m) { return m.name == name; });
  return found == models.end() ? nullptr : &*found;
}

std::string description(const std::string& text, const OperatorGraph& graph, bool each_operator) {
  const ZooModel* model = zoo_model(text);
  std::string result = graph.name() + "\n";
  if (model) result = fmt::format("{}: {}\nSource: {}\n", graph.name(), model->description, model->source);
  result += "\n" + totals(graph) + "\n" + (each_operator ? operators_table(graph) : work_by_kind(graph));
  if (model) result += fmt::format("\nOptions, as {}:key=value,…\n", model->name) + options_table(*model);
  if (const auto file = model_file(text)) result += sizes_text(*file);
  return result;
}

// With a batch that --batch can change, where the model's own is to be chosen.
std::string file_of(const std::string& text, const OperatorGraph& graph) {
  if (batch_key(text).empty() || graph.batch() > (1 << 19)) return to_json(graph);
  return to_json_with_batch(graph, open_model(with_batch(text, 2 * graph.batch())));
}

int run_kinds(const Arguments& arguments, Streams& streams) {
  std::string kind = arguments.text("kinds");
  if (!arguments.operands().empty()) {
    if (!kind.empty() && kind != kAllKinds)
      throw UsageError(fmt::format("models: --kinds={} and \"{}\": one kind at a time", kind,
                                   arguments.operands().front()));
    kind = arguments.operands().front();
  }
  for (const char* option : {"operators", "operator", "split", "set", "markdown", "onnx"}) {
    if (arguments.given(option))
      throw UsageError(fmt::format("models: --kinds and --{} exclude each other", option));
  }
  const bool all = kind == kAllKinds;
  if (arguments.given("json")) {
    give_document(streams, all ? kinds_json() : kind_json(operator_kind(kind)));
  } else {
    streams.out << (all ? kinds_table() : kind_text(operator_kind(kind)));
  }
  return 0;
}

const Operator& operator_named(const OperatorGraph& graph, const std::string& name) {
  std::vector<std::string> names;
  for (const Operator& op : graph.operators()) {
    if (op.name == name) return op;
    names.push_back(op.name);
  }
  throw InputError(fmt::format("unknown operator \"{}\"{}; model \"{}\" has {}", name,
                               did_you_mean(name, names), graph.name(), list_names(names)));
}

int run_operator(const Arguments& arguments, const OperatorGraph& graph, Streams& streams) {
  const Operator& op = operator_named(graph, arguments.text("operator"));
  const ParallelConfig config = parse_split(op, arguments.has("split") ? arguments.text("split") : "");
  if (const auto reason = illegal_split(op, config))
    throw InputError(fmt::format("split of {}: {}", op.name, *reason));
  if (arguments.given("json")) {
    give_document(streams, loops_json(graph, op, config));
  } else {
    streams.out << loops_text(graph, op, config);
  }
  return 0;
}

int write_onnx(const OperatorGraph& graph, const std::string& file, Streams& streams) {
  const std::string model = to_onnx(graph);
  write_file(file, model);
  streams.out << fmt::format("{}: {} as ONNX, {} operators, {}\n", file, graph.name(),
                             graph.operators().size(),
                             pretty(Bytes(static_cast<std::int64_t>(model.size()))));
  return 0;
}

int run_models(const Arguments& arguments, Streams& streams) {
  if (arguments.has("kinds")) return run_kinds(arguments, streams);
  const bool json = arguments.given("json");
  if (arguments.given("markdown")) {
    if (!arguments.operands().empty()) throw UsageError("models: --markdown takes no MODEL");
    streams.out << models_markdown();
    return 0;
  }
  if (arguments.given("split") && !arguments.given("operator"))
    throw UsageError("models: --split needs --operator");
  if (arguments.operands().empty()) {
    for (const char* option : {"set", "operator", "onnx"}) {
      if (arguments.given(option)) throw UsageError(fmt::format("models: --{} needs MODEL", option));
    }
    if (json) {
      give_document(streams, zoo_json());
    } else {
      streams.out << zoo_table();
    }
    return 0;
  }
  if (arguments.given("onnx")) {
    for (const char* option : {"operators", "operator", "json"}) {
      if (arguments.given(option))
        throw UsageError(fmt::format("models: --onnx and --{} exclude each other", option));
    }
  }
  const std::string text =
      model_of_config(with_settings(arguments.operands().front(), arguments.texts("set")));
  const OperatorGraph graph = open_model(text);
  if (arguments.given("onnx")) return write_onnx(graph, arguments.text("onnx"), streams);
  if (arguments.given("operator")) return run_operator(arguments, graph, streams);
  streams.out << (json ? file_of(text, graph) : description(text, graph, arguments.given("operators")));
  return 0;
}

}  // namespace

Command models_command() {
  return {
      .name = "models",
      .summary = "list the models of the zoo, or show one model",
      .description =
          "Without MODEL: lists the zoo, with the default sizes of each model. With MODEL: shows its "
          "operators, parameters and work by kind of operator, and for a zoo model the keys that change "
          "its sizes. \"forward\" counts the floating-point operations in a forward pass of a whole "
          "batch; a multiply and an add are two.\n\nWith --kinds: lists the kinds of operators for model "
          "files, or shows one kind: its attributes, how it can be split, and lines for a model file. "
          "--markdown prints all of this; docs/files.md describes model files.",
      .operands = {{.name = "MODEL", .help = kModelHelp, .required = false, .details = kModelDetails}},
      .options =
          {{.name = "operators",
            .argument = "",
            .default_value = "",
            .help = "list each operator with its factors",
            .details = "Factors are the index ranges along which an operator can be split."},
           set_option(),
           {.name = "operator",
            .argument = "NAME",
            .default_value = "",
            .help = "show one operator as nested loops, and what its shards share",
            .details = "The loops that run on different devices come first. Below them stands what follows "
                       "for communication: which devices need the same part of a tensor, and which make "
                       "addends of the same part. Neighbours in the model may ask for more: simulate and "
                       "search know them."},
           {.name = "split",
            .argument = "SPLIT",
            .default_value = "whole",
            .help = "how --operator is split: \"b/2 o/4\"",
            .details =
                "FACTOR/N for each factor that is divided; \"xN copies\" of all; \"in a ring\" for keys "
                "of attention. --operators lists the factors."},
           {.name = "kinds",
            .argument = "KIND",
            .default_value = "",
            .help = "list the kinds of operators; --kinds KIND shows one of them",
            .implied = kAllKinds},
           {.name = "markdown",
            .argument = "",
            .default_value = "",
            .help = "print the zoo and all kinds in full",
            .details = "Installed as docs/models.md beside the other pages.",
            .group = OptionGroup::Output},
           {.name = "json",
            .argument = "",
            .default_value = "",
            .help = "print a model file, to be edited and used as FILE.json",
            .details = "Without MODEL: the list as JSON; with --kinds: the kinds as JSON.",
            .group = OptionGroup::Output},
           {.name = "onnx",
            .argument = "FILE",
            .default_value = "",
            .help = "write the model's forward pass to FILE as ONNX, for other tools",
            .details = "Shapes and names without the weights' values; docs/files.md says how operators are "
                       "written.",
            .group = OptionGroup::Output}},
      .common = {"operators", "set", "kinds", "json"},
      .examples = {{"pipesim models", "the zoo"},
                   {"pipesim models bert-large:batch=32 --operators",
                    "each operator of a model of another size"},
                   {"pipesim models gpt --set layers=2 --set hidden=384", "options one by one"},
                   {"pipesim models gpt3-1.3b --operator layer1.ffn1 --split 'b/2 o/4'",
                    "which loops run on which devices, and what they share"},
                   {"pipesim models --kinds linear", "what a linear operator may say in a model file"},
                   {"pipesim models resnet50 --json > my.model.json", "a model file to start from"},
                   {"pipesim models llama3-8b --onnx llama.onnx",
                    "the same network for tools that read ONNX"}},
      .run = run_models};
}

}  // namespace pipesim
