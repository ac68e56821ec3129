#include "taskgraph/plan/plan_json.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "sim/base/errors.h"
#include "sim/base/file_kind.h"
#include "sim/base/files.h"
#include "taskgraph/plan/stages_json.h"
#include "taskgraph/plan/strategy_json.h"

namespace pipesim {
namespace {

using Json = nlohmann::ordered_json;
constexpr int kVersion = 2;
constexpr int kFirstVersion = 1;  // in which "full" recompute of a pipeline was what "stage" is now

// What a function reads from text; its errors name the place.
template <class Read>
auto read_at(const JsonValue& value, const std::string& text, Read read) {
  try {
    return read(text);
  } catch (const InputError& error) {
    value.fail(error.what());
  }
}

template <class Read>
auto read_at(const JsonValue& value, Read read) {
  return read_at(value, value.string(), read);
}

// A number, or a list of them.
Imbalance imbalance_of(const JsonValue& value) {
  std::string text;
  for (const JsonValue& load : value.is_array() ? value.items() : std::vector{value})
    text += fmt::format("{}{}", text.empty() ? "" : ",", load.number(0, 1e6));
  return read_at(value, text, parse_imbalance);
}

PlanOptions read_options(const JsonValue& root) {
  PlanOptions options;
  if (const auto v = root.find("optimizer")) options.optimizer = read_at(*v, parse_optimizer);
  if (const auto v = root.find("gradient_type")) options.gradient_type = v->data_type();
  if (const auto v = root.find("gradient_piece")) options.gradient_piece = v->bytes();
  if (const auto v = root.find("microbatches"))
    options.microbatches = static_cast<std::int32_t>(v->integer(1, kMostMicrobatches));
  read_policies(root, options);
  if (const auto v = root.find("imbalance")) options.imbalance = imbalance_of(*v);
  return options;
}

std::string optional_string(const JsonValue& root, std::string_view key) {
  const auto value = root.find(key);
  return value ? value->string() : "";
}

}  // namespace

PlanFile PlanFile::parse(std::string_view text, const std::string& source) {
  const JsonValue root = JsonDocument::parse(text, source);
  require_file_kind(root, kPlanKey);
  root.allow_only({"pipesim_plan",
                   "model",
                   "model_fingerprint",
                   "topology",
                   "topology_fingerprint",
                   "optimizer",
                   "gradient_type",
                   "gradient_piece",
                   "microbatches",
                   "state_sharding",
                   "gathered_inputs",
                   "gradient_reduction",
                   "imbalance",
                   "runtime",
                   "recipe",
                   "found_by",
                   "seed",
                   "schedule",
                   "stages",
                   "replicas",
                   "messages",
                   "recompute",
                   "configs"});
  const std::int64_t version = root.at("pipesim_plan").integer(0, INT32_MAX);
  if (version < kFirstVersion || version > kVersion)
    root.at("pipesim_plan")
        .fail(fmt::format("version {}; this pipesim reads versions {} and {}", version, kFirstVersion,
                          kVersion));
  Plan plan;
  plan.model = root.at("model").string();
  plan.topology = root.at("topology").string();
  plan.model_fingerprint = optional_string(root, "model_fingerprint");
  plan.topology_fingerprint = optional_string(root, "topology_fingerprint");
  plan.options = read_options(root);
  if (const auto v = root.find("runtime")) plan.runtime = read_at(*v, parse_runtime);
  plan.recipe = optional_string(root, "recipe");
  plan.found_by = optional_string(root, "found_by");
  if (const auto v = root.find("seed")) plan.seed = static_cast<std::uint64_t>(v->integer(0, INT64_MAX));
  return {std::move(plan), root};
}

PlanFile PlanFile::load(const std::string& path) { return parse(read_file(path), path); }

Plan PlanFile::read(const OperatorGraph& graph, const Topology& topology, const Topology& own) const {
  Plan plan = plan_;
  plan.strategy = read_strategy(root_.at("configs"), graph, own);
  if (&own != &topology) move_to(topology, own, root_.at("configs"), plan.strategy);
  plan.options.pipeline = read_pipeline(root_, graph);
  plan.options.recompute = read_recompute(root_, graph);
  Recompute::Kind& again = plan.options.recompute.kind;
  if (plan.options.pipeline && again == Recompute::Kind::Full &&
      root_.at("pipesim_plan").integer(kFirstVersion, kVersion) == kFirstVersion)
    again = Recompute::Kind::Stage;
  if (const auto reason = illegal(graph, plan.options.recompute, plan.options.pipeline))
    root_.at("recompute").fail(*reason);
  if (const auto reason = illegal(graph, plan.options.imbalance)) root_.at("imbalance").fail(*reason);
  if (const auto reason = illegal(graph, plan.strategy, plan.options, topology))
    root_.at(plan.options.pipeline ? "stages" : "configs").fail(*reason);
  return plan;
}

std::string to_json(const Plan& plan, const OperatorGraph& graph, const Topology& topology) {
  Json head{{"pipesim_plan", kVersion}, {"model", plan.model}};
  if (!plan.model_fingerprint.empty()) head["model_fingerprint"] = plan.model_fingerprint;
  head["topology"] = plan.topology;
  if (!plan.topology_fingerprint.empty()) head["topology_fingerprint"] = plan.topology_fingerprint;
  head["optimizer"] = plan.options.optimizer.str();
  head["gradient_type"] = name_of(plan.options.gradient_type);
  head["gradient_piece"] = to_text(plan.options.gradient_piece);
  if (plan.options.microbatches > 1) head["microbatches"] = plan.options.microbatches;
  write_policies(plan.options, head);
  if (const std::vector<double>& loads = plan.options.imbalance.loads; loads.size() == 1)
    head["imbalance"] = loads.front();
  else if (!loads.empty())
    head["imbalance"] = loads;
  if (plan.runtime != Runtime()) head["runtime"] = plan.runtime.name;
  if (!plan.recipe.empty()) head["recipe"] = plan.recipe;
  if (!plan.found_by.empty()) head["found_by"] = plan.found_by;
  head["seed"] = plan.seed;
  const std::optional<Pipeline>& pipeline = plan.options.pipeline;
  if (pipeline) head["schedule"] = pipeline->schedule;
  if (pipeline && pipeline->messages) head["messages"] = name_of(*pipeline->messages);
  const Recompute& recompute = plan.options.recompute;
  if (recompute.any() && recompute.kind != Recompute::Kind::Listed) head["recompute"] = recompute.str();
  std::string text = head.dump(2);
  text.resize(text.size() - 2);  // before the closing "\n}"
  if (pipeline) text += stages_text(graph, *pipeline);
  if (pipeline && !pipeline->replicas.empty())
    text += fmt::format(",\n  \"replicas\": {}", Json(pipeline->replicas).dump());
  if (recompute.kind == Recompute::Kind::Listed) text += segments_text(graph, recompute.segment_of);
  text += ",\n  \"configs\": [";
  for (std::size_t i = 0; i < plan.strategy.size(); ++i) {
    text += (i ? ",\n    " : "\n    ") + config_line(graph.operators()[i], plan.strategy[i], topology);
  }
  return text + "\n  ]\n}\n";
}

}  // namespace pipesim
