#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <ostream>

#include "models/box.h"
#include "models/model_json.h"
#include "models/zoo/zoo.h"
#include "tools/commands.h"
#include "tools/figures.h"
#include "tools/inputs.h"
#include "tools/table.h"

namespace pipesim {
namespace {

std::string zoo_table() {
  Table table({{"name"},
               {"batch", Align::Right},
               {"operators", Align::Right},
               {"parameters", Align::Right},
               {"forward", Align::Right},
               {"description"}});
  for (const ZooModel& model : zoo_models()) {
    const OperatorGraph graph = make_zoo_model(model.name);
    table.add({model.name, std::to_string(graph.batch()), std::to_string(graph.operators().size()),
               pretty_count(graph.parameter_count()), pretty(graph.forward_flops()), model.description});
  }
  return table.str() +
         "\n\"pipesim models NAME\" shows one, with the options that it takes as NAME:key=value,…\n";
}

std::string zoo_json() {
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
  return nlohmann::ordered_json{{"models", models}}.dump(2) + "\n";
}

// As OperatorGraph::forward_flops counts, so that the shares sum to 1.
Flops flops_of(const Operator& op) { return Flops(evaluate(op.flops_forward, whole_ranges(op))); }

// Weights of the operator; a shared one counts at its first use, so that the sum is the model's.
std::vector<std::int64_t> parameters_by_operator(const OperatorGraph& graph) {
  std::vector<std::int64_t> parameters;
  std::vector<bool> counted(graph.tensors().size());
  for (const Operator& op : graph.operators()) {
    std::int64_t sum = 0;
    for (const TensorUse& use : op.uses) {
      if (use.role != Role::Weight || counted[use.tensor.index()]) continue;
      counted[use.tensor.index()] = true;
      sum += graph.tensor(use.tensor).elements();
    }
    parameters.push_back(sum);
  }
  return parameters;
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
  table.add({"activations", pretty(activations)});
  table.add({"forward", pretty(graph.forward_flops())});
  if (measured != MeasuredTime{}) {
    table.add({"measured",
               fmt::format("forward {}, backward {}", pretty(measured.forward), pretty(measured.backward))});
  }
  table.add({"fingerprint", graph.fingerprint()});
  return table.str(2);
}

std::string kinds_table(const OperatorGraph& graph) {
  struct Sum {
    std::int64_t operators = 0, parameters = 0;
    Flops flops;
  };
  std::map<std::string, Sum> sums;
  const std::vector<std::int64_t> parameters = parameters_by_operator(graph);
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    const Operator& op = graph.operators()[i];
    Sum& sum = sums[op.kind];
    ++sum.operators;
    sum.parameters += parameters[i];
    sum.flops += flops_of(op);
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

std::string factors_text(const Operator& op) {
  std::string text;
  for (const Factor& factor : op.factors)
    text += fmt::format("{}{}={}", text.empty() ? "" : " ", factor.name, factor.size);
  return text;
}

std::string operators_table(const OperatorGraph& graph) {
  Table table({{"operator"}, {"kind"}, {"parameters", Align::Right}, {"forward", Align::Right}, {"factors"}});
  const std::vector<std::int64_t> parameters = parameters_by_operator(graph);
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    const Operator& op = graph.operators()[i];
    table.add({op.name, op.kind, pretty_count(parameters[i]), pretty(flops_of(op)), factors_text(op)});
  }
  return table.str(2);
}

std::string options_table(const ZooModel& model) {
  Table table({{}, {}, {}});
  for (const ZooOption& option : model.options)
    table.add({option.key + "=" + option.default_value, option.allowed(), option.help});
  return table.str(2);
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
  result += "\n" + totals(graph) + "\n" + (each_operator ? operators_table(graph) : kinds_table(graph));
  if (model) result += fmt::format("\nOptions, as {}:key=value,…\n", model->name) + options_table(*model);
  return result;
}

int run_models(const Arguments& arguments, Streams& streams) {
  const bool json = arguments.given("json");
  if (arguments.operands().empty()) {
    streams.out << (json ? zoo_json() : zoo_table());
    return 0;
  }
  const std::string& text = arguments.operands().front();
  const OperatorGraph graph = open_model(text);
  streams.out << (json ? to_json(graph) : description(text, graph, arguments.given("operators")));
  return 0;
}

}  // namespace

Command models_command() {
  return {
      .name = "models",
      .summary = "list the models of the zoo, or show one model",
      .description =
          "Without MODEL: the zoo, with the sizes that each model has by default. With MODEL: its operators, "
          "parameters and work by kind of operator, and for a zoo model the options that change its sizes. "
          "\"forward\" is the floating-point operations of a forward pass of one whole batch; a multiply and "
          "an add "
          "are two.",
      .operands = {{.name = "MODEL", .help = kModelHelp, .required = false}},
      .options = {{.name = "operators",
                   .argument = "",
                   .default_value = "",
                   .help =
                       "list each operator with its factors: the index ranges along which it can be split"},
                  {.name = "json",
                   .argument = "",
                   .default_value = "",
                   .help =
                       "print the model as a model file, which can be edited and used as FILE.json; without "
                       "MODEL, print the list as JSON"}},
      .examples = {{"pipesim models", "the zoo"},
                   {"pipesim models bert-large:batch=32 --operators",
                    "each operator of a model of another size"},
                   {"pipesim models resnet50 --json > my-model.json", "a model file to start from"}},
      .run = run_models};
}

}  // namespace pipesim
