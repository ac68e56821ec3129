#include "taskgraph/plan/plan_json.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "sim/base/errors.h"
#include "sim/base/file_kind.h"
#include "sim/base/files.h"
#include "sim/base/suggest.h"

namespace pipesim {
namespace {

using Json = nlohmann::ordered_json;
constexpr int kVersion = 2;
constexpr int kFirstVersion = 1;  // in which "full" recompute of a pipeline was what "stage" is now

Optimizer optimizer_of(const JsonValue& value) {
  try {
    return parse_optimizer(value.string());
  } catch (const InputError& error) {
    value.fail(error.what());
  }
}

StateSharding state_sharding_of(const JsonValue& value) {
  try {
    return parse_state_sharding(value.string());
  } catch (const InputError& error) {
    value.fail(error.what());
  }
}

GatheredInputs gathered_inputs_of(const JsonValue& value) {
  try {
    return parse_gathered_inputs(value.string());
  } catch (const InputError& error) {
    value.fail(error.what());
  }
}

// A number, or a list of them.
Imbalance imbalance_of(const JsonValue& value) {
  std::string text;
  for (const JsonValue& load : value.is_array() ? value.items() : std::vector{value})
    text += fmt::format("{}{}", text.empty() ? "" : ",", load.number(0, 1e6));
  try {
    return parse_imbalance(text);
  } catch (const InputError& error) {
    value.fail(error.what());
  }
}

PlanOptions read_options(const JsonValue& root) {
  PlanOptions options;
  if (const auto v = root.find("optimizer")) options.optimizer = optimizer_of(*v);
  if (const auto v = root.find("gradient_type")) options.gradient_type = v->data_type();
  if (const auto v = root.find("gradient_piece")) options.gradient_piece = v->bytes();
  if (const auto v = root.find("microbatches"))
    options.microbatches = static_cast<std::int32_t>(v->integer(1, kMostMicrobatches));
  if (const auto v = root.find("state_sharding")) options.state_sharding = state_sharding_of(*v);
  if (const auto v = root.find("gathered_inputs")) options.gathered_inputs = gathered_inputs_of(*v);
  if (const auto v = root.find("imbalance")) options.imbalance = imbalance_of(*v);
  return options;
}

std::string optional_string(const JsonValue& root, std::string_view key) {
  const auto value = root.find(key);
  return value ? value->string() : "";
}

// One entry of a device list: a name, or "first..last" in the topology's order.
void read_devices(const JsonValue& entry, const Topology& topology, std::vector<DeviceId>& out) {
  const std::string text = entry.string();
  const std::size_t dots = text.find("..");
  const auto named = [&](const std::string& name) {
    try {
      return topology.device_named(name);
    } catch (const InputError& error) {
      entry.fail(error.what());
    }
  };
  const DeviceId first = named(text.substr(0, dots));
  const DeviceId last = dots == std::string::npos ? first : named(text.substr(dots + 2));
  if (last < first) entry.fail(fmt::format("the range \"{}\" runs backwards", text));
  for (std::int32_t d = first.value; d <= last.value; ++d) out.emplace_back(d);
}

std::vector<DeviceId> read_device_list(const JsonValue& value, const Topology& topology) {
  std::vector<DeviceId> devices;
  if (value.is_string() && value.string() == "all") {
    for (std::size_t d = 0; d < topology.num_devices(); ++d) devices.emplace_back(d);
  } else if (value.is_string()) {
    read_devices(value, topology, devices);
  } else {
    for (const JsonValue& item : value.items()) read_devices(item, topology, devices);
  }
  return devices;
}

struct Split {
  std::size_t factor;
  std::int32_t degree;
};

std::vector<Split> read_splits(const JsonValue& value, const Operator& op) {
  std::vector<std::string> names;
  for (const Factor& f : op.factors) names.push_back(f.name);
  std::vector<Split> splits;
  for (const JsonValue& item : value.items()) {
    const std::vector<JsonValue> pair = item.items();
    if (pair.size() != 2) item.fail("found " + item.text() + ", a pair like [\"b\", 4] is needed");
    const std::string name = pair[0].string();
    const auto it = std::find(names.begin(), names.end(), name);
    if (it == names.end()) {
      pair[0].fail(fmt::format("operator \"{}\" has no factor \"{}\"{}; it has {}", op.name, name,
                               did_you_mean(name, names), list_names(names)));
    }
    const auto factor = static_cast<std::size_t>(it - names.begin());
    if (std::any_of(splits.begin(), splits.end(), [&](const Split& s) { return s.factor == factor; })) {
      pair[0].fail(fmt::format("factor \"{}\" is split twice", name));
    }
    splits.push_back({factor, static_cast<std::int32_t>(pair[1].integer(1, INT32_MAX))});
  }
  return splits;
}

// From the file's order (replicas, then splits as listed) to shard order (replicas, then the operator's
// factors).
std::vector<DeviceId> in_shard_order(const std::vector<DeviceId>& listed, const std::vector<Split>& splits,
                                     const ParallelConfig& config) {
  std::vector<DeviceId> devices(listed.size());
  std::vector<std::int64_t> stride(config.degrees.size(), 1);
  for (std::size_t f = config.degrees.size(); f-- > 1;) stride[f - 1] = stride[f] * config.degrees[f];
  const std::int64_t parts = config.num_shards() / config.replicas;
  for (std::int64_t k = 0; k < config.num_shards(); ++k) {
    std::int64_t rest = k % parts, shard = k / parts * parts;
    for (std::size_t s = splits.size(); s-- > 0;) {
      shard += rest % splits[s].degree * stride[splits[s].factor];
      rest /= splits[s].degree;
    }
    devices[static_cast<std::size_t>(shard)] = listed[static_cast<std::size_t>(k)];
  }
  return devices;
}

ParallelConfig read_config(const JsonValue& value, const Operator& op, const Topology& topology) {
  value.allow_only({"operator", "split", "replicas", "ring", "devices"});
  ParallelConfig config{std::vector<std::int32_t>(op.factors.size(), 1), 1, {}};
  std::vector<Split> splits;
  if (const auto v = value.find("split")) splits = read_splits(*v, op);
  if (const auto v = value.find("replicas"))
    config.replicas = static_cast<std::int32_t>(v->integer(1, INT32_MAX));
  if (const auto v = value.find("ring")) config.ring = v->boolean();
  std::int64_t shards = config.replicas;
  for (const Split& s : splits) {
    config.degrees[s.factor] = s.degree;
    shards *= s.degree;
    if (shards > static_cast<std::int64_t>(topology.num_devices())) {
      value.fail(
          fmt::format("operator \"{}\": more shards than the {} devices", op.name, topology.num_devices()));
    }
  }
  config.devices = read_device_list(value.at("devices"), topology);
  if (shards == static_cast<std::int64_t>(config.devices.size())) {
    config.devices = in_shard_order(config.devices, splits, config);
  }
  if (const auto reason = illegal(op, config, topology))
    value.fail(fmt::format("operator \"{}\": {}", op.name, *reason));
  return config;
}

Strategy read_strategy(const JsonValue& configs, const OperatorGraph& graph, const Topology& topology) {
  std::vector<std::string> names;
  for (const Operator& op : graph.operators()) names.push_back(op.name);
  Strategy strategy(names.size());
  for (const JsonValue& item : configs.items()) {
    const JsonValue name = item.at("operator");
    const auto it = std::find(names.begin(), names.end(), name.string());
    if (it == names.end()) {
      name.fail(fmt::format("model \"{}\" has no operator \"{}\"{}", graph.name(), name.string(),
                            did_you_mean(name.string(), names)));
    }
    const auto i = static_cast<std::size_t>(it - names.begin());
    if (!strategy[i].devices.empty()) name.fail(fmt::format("operator \"{}\" has two configs", *it));
    strategy[i] = read_config(item, graph.operators()[i], topology);
  }
  for (std::size_t i = 0; i < names.size(); ++i) {
    if (strategy[i].devices.empty()) configs.fail(fmt::format("operator \"{}\" has no config", names[i]));
  }
  return strategy;
}

// One entry of a stage: an operator, or "first..last" in the model's order.
std::pair<std::size_t, std::size_t> read_operators(const JsonValue& entry, const OperatorGraph& graph,
                                                   const std::vector<std::string>& names) {
  const std::string text = entry.string();
  const auto position = [&](const std::string& name) {
    return static_cast<std::size_t>(std::ranges::find(names, name) - names.begin());
  };
  if (const std::size_t whole = position(text); whole < names.size()) return {whole, whole};
  const auto named = [&](const std::string& name) {
    const std::size_t found = position(name);
    if (found < names.size()) return found;
    entry.fail(
        fmt::format("model \"{}\" has no operator \"{}\"{}", graph.name(), name, did_you_mean(name, names)));
  };
  const std::size_t dots = text.find("..");
  const std::size_t first = named(text.substr(0, dots));
  const std::size_t last = dots == std::string::npos ? first : named(text.substr(dots + 2));
  if (last < first) entry.fail(fmt::format("the range \"{}\" runs backwards", text));
  return {first, last};
}

std::optional<Pipeline> read_pipeline(const JsonValue& root, const OperatorGraph& graph) {
  const auto stages = root.find("stages"), schedule = root.find("schedule"), replicas = root.find("replicas");
  if (!stages && schedule) schedule->fail("a schedule needs \"stages\"");
  if (!stages && replicas) replicas->fail("replicas that take microbatches in turn need \"stages\"");
  if (!stages) return std::nullopt;
  Pipeline pipeline;
  if (schedule) pipeline.schedule = schedule->string();
  try {
    (void)plan_schedule(pipeline.schedule);
  } catch (const InputError& error) {
    schedule->fail(error.what());
  }
  std::vector<std::string> names;
  for (const Operator& op : graph.operators()) names.push_back(op.name);
  pipeline.stage_of.assign(names.size(), -1);
  std::int32_t stage = 0;
  for (const JsonValue& list : stages->items()) {
    if (list.items().empty()) list.fail("a stage without operators");
    for (const JsonValue& entry : list.items()) {
      const auto [first, last] = read_operators(entry, graph, names);
      for (std::size_t i = first; i <= last; ++i) {
        std::int32_t& of_operator = pipeline.stage_of[i];
        if (of_operator >= 0)
          entry.fail(
              fmt::format("operator \"{}\" is in stage {} and in stage {}", names[i], of_operator, stage));
        of_operator = stage;
      }
    }
    ++stage;
  }
  for (std::size_t i = 0; i < names.size(); ++i) {
    if (pipeline.stage_of[i] < 0) stages->fail(fmt::format("operator \"{}\" is in no stage", names[i]));
  }
  if (replicas) {
    for (const JsonValue& count : replicas->items())
      pipeline.replicas.push_back(static_cast<std::int32_t>(count.integer(1, kMostWays)));
    if (pipeline.replicas.size() != stages->items().size()) {
      replicas->fail(fmt::format("found {} number{} for {} stages; each stage needs one",
                                 pipeline.replicas.size(), pipeline.replicas.size() == 1 ? "" : "s",
                                 stages->items().size()));
    }
  }
  return pipeline;
}

// A name; or a list of segments, each a list of operators and ranges, or one of them.
Recompute read_recompute(const JsonValue& root, const OperatorGraph& graph) {
  const auto value = root.find("recompute");
  if (!value) return {};
  if (value->is_string()) {
    try {
      return parse_recompute(value->string());
    } catch (const InputError& error) {
      value->fail(error.what());
    }
  }
  std::vector<std::string> names;
  for (const Operator& op : graph.operators()) names.push_back(op.name);
  Recompute recompute{Recompute::Kind::Listed, std::vector<std::int32_t>(names.size(), kNoSegment)};
  const std::vector<JsonValue> segments = value->items();
  if (segments.empty()) value->fail("found no segment; leave it out to run nothing again");
  for (std::size_t s = 0; s < segments.size(); ++s) {
    const std::vector<JsonValue> entries =
        segments[s].is_string() ? std::vector<JsonValue>{segments[s]} : segments[s].items();
    if (entries.empty()) segments[s].fail("a segment without operators");
    for (const JsonValue& entry : entries) {
      const auto [first, last] = read_operators(entry, graph, names);
      for (std::size_t i = first; i <= last; ++i) {
        std::int32_t& of_operator = recompute.segment_of[i];
        if (of_operator >= 0)
          entry.fail(
              fmt::format("operator \"{}\" is in segment {} and in segment {}", names[i], of_operator, s));
        of_operator = static_cast<std::int32_t>(s);
      }
    }
  }
  return recompute;
}

// "gpu0..gpu3, gpu6", in the topology's order.
std::string ranges_text(const std::vector<DeviceId>& devices, const Topology& topology) {
  constexpr std::size_t kMost = 8;
  std::vector<std::string> ranges;
  for (std::size_t i = 0; i < devices.size();) {
    std::size_t end = i + 1;
    while (end < devices.size() && devices[end].value == devices[end - 1].value + 1) ++end;
    std::string text = topology.device(devices[i]).name;
    if (end > i + 1) text += ".." + topology.device(devices[end - 1]).name;
    ranges.push_back(std::move(text));
    i = end;
  }
  const std::size_t more = ranges.size() - std::min(kMost, ranges.size());
  ranges.resize(ranges.size() - more);
  return fmt::format("{}{}", fmt::join(ranges, ", "), more > 0 ? ", …" : "");
}

// The same devices by name, for those of `own`.
void move_to(const Topology& topology, const Topology& own, const JsonValue& configs, Strategy& strategy) {
  std::vector<bool> used(own.num_devices(), false);
  for (const ParallelConfig& config : strategy) {
    for (const DeviceId d : config.devices) used[d.index()] = true;
  }
  std::vector<DeviceId> there(own.num_devices()), missing, has;
  for (std::size_t d = 0; d < used.size(); ++d) {
    if (!used[d]) continue;
    const auto found = topology.find_device(own.device(DeviceId(d)).name);
    if (found) there[d] = *found;
    if (!found) missing.emplace_back(d);
  }
  if (!missing.empty()) {
    for (std::size_t d = 0; d < topology.num_devices(); ++d) has.emplace_back(d);
    configs.fail(fmt::format("the plan uses {} of \"{}\", but topology \"{}\" lacks {}: {}; it has {}",
                             counted(std::count(used.begin(), used.end(), true), "device"), own.name(),
                             topology.name(), missing.size(), ranges_text(missing, own),
                             ranges_text(has, topology)));
  }
  for (ParallelConfig& config : strategy) {
    for (DeviceId& d : config.devices) d = there[d.index()];
  }
}

Json device_list(const std::vector<DeviceId>& devices, const Topology& topology) {
  Json list = Json::array();
  for (std::size_t i = 0; i < devices.size();) {
    std::size_t j = i + 1;
    while (j < devices.size() && devices[j].value == devices[j - 1].value + 1) ++j;
    if (j - i == topology.num_devices() && j - i > 1) return "all";
    std::string text = topology.device(devices[i]).name;
    if (j - i > 1) text += ".." + topology.device(devices[j - 1]).name;
    list.push_back(std::move(text));
    i = j;
  }
  return list;
}

std::string config_line(const Operator& op, const ParallelConfig& config, const Topology& topology) {
  Json json{{"operator", op.name}};
  Json splits = Json::array();
  for (std::size_t f = 0; f < config.degrees.size(); ++f) {
    if (config.degrees[f] > 1) splits.push_back({op.factors[f].name, config.degrees[f]});
  }
  if (!splits.empty()) json["split"] = std::move(splits);
  if (config.replicas > 1) json["replicas"] = config.replicas;
  if (config.ring) json["ring"] = true;
  json["devices"] = device_list(config.devices, topology);
  return json.dump();
}

// The operators of a part of the model; runs in the model's order as ranges.
Json operators_of(const OperatorGraph& graph, const std::vector<std::int32_t>& part_of, std::int32_t part) {
  Json list = Json::array();
  for (std::size_t i = 0; i < part_of.size();) {
    std::size_t end = i;
    while (end < part_of.size() && part_of[end] == part) ++end;
    const auto name = [&](std::size_t op) { return graph.operators()[op].name; };
    const auto plain = [&](std::size_t op) { return name(op).find("..") == std::string::npos; };
    if (end > i + 1 && plain(i) && plain(end - 1)) {
      list.push_back(name(i) + ".." + name(end - 1));
    } else {
      for (std::size_t op = i; op < end; ++op) list.push_back(name(op));
    }
    i = std::max(end, i + 1);
  }
  return list;
}

// A line for each part.
std::string member_text(const char* name, const std::vector<Json>& parts) {
  std::string text;
  for (const Json& part : parts) text += (text.empty() ? "\n    " : ",\n    ") + part.dump();
  return fmt::format(",\n  \"{}\": [{}\n  ]", name, text);
}

std::string stages_text(const OperatorGraph& graph, const Pipeline& pipeline) {
  std::vector<Json> stages;
  for (std::int32_t s = 0; s < pipeline.num_stages(); ++s)
    stages.push_back(operators_of(graph, pipeline.stage_of, s));
  return member_text("stages", stages);
}

std::string segments_text(const OperatorGraph& graph, const std::vector<std::int32_t>& segment_of) {
  std::vector<Json> segments;
  for (std::int32_t s = 0; s <= *std::ranges::max_element(segment_of); ++s) {
    Json operators = operators_of(graph, segment_of, s);
    segments.push_back(operators.size() == 1 ? operators.front() : std::move(operators));
  }
  return member_text("recompute", segments);
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
                   "imbalance",
                   "recipe",
                   "found_by",
                   "seed",
                   "schedule",
                   "stages",
                   "replicas",
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
  head["optimizer"] = name_of(plan.options.optimizer);
  head["gradient_type"] = name_of(plan.options.gradient_type);
  head["gradient_piece"] = to_text(plan.options.gradient_piece);
  if (plan.options.microbatches > 1) head["microbatches"] = plan.options.microbatches;
  if (plan.options.state_sharding.any()) head["state_sharding"] = plan.options.state_sharding.str();
  if (plan.options.gathered_inputs != GatheredInputs::Keep)
    head["gathered_inputs"] = name_of(plan.options.gathered_inputs);
  if (const std::vector<double>& loads = plan.options.imbalance.loads; loads.size() == 1)
    head["imbalance"] = loads.front();
  else if (!loads.empty())
    head["imbalance"] = loads;
  if (!plan.recipe.empty()) head["recipe"] = plan.recipe;
  if (!plan.found_by.empty()) head["found_by"] = plan.found_by;
  head["seed"] = plan.seed;
  const std::optional<Pipeline>& pipeline = plan.options.pipeline;
  if (pipeline) head["schedule"] = pipeline->schedule;
  const Recompute& recompute = plan.options.recompute;
  if (recompute.kind != Recompute::Kind::None && recompute.kind != Recompute::Kind::Listed)
    head["recompute"] = name_of(recompute.kind);
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
