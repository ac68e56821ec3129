#include "taskgraph/plan/stages_json.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "sim/base/errors.h"
#include "sim/base/suggest.h"

namespace pipesim {
namespace {

using Json = nlohmann::ordered_json;

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

}  // namespace

StageMessages stage_messages_of(const JsonValue& value) {
  try {
    return parse_stage_messages(value.string());
  } catch (const InputError& error) {
    value.fail(error.what());
  }
}

std::optional<Pipeline> read_pipeline(const JsonValue& plan, const OperatorGraph& graph) {
  const auto stages = plan.find("stages"), schedule = plan.find("schedule"), replicas = plan.find("replicas"),
             messages = plan.find("messages");
  if (!stages && schedule) schedule->fail("a schedule needs \"stages\"");
  if (!stages && replicas) replicas->fail("replicas that take microbatches in turn need \"stages\"");
  if (!stages && messages) messages->fail("messages go between \"stages\"");
  if (!stages) return std::nullopt;
  Pipeline pipeline;
  if (messages) pipeline.messages = stage_messages_of(*messages);
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

Recompute read_recompute(const JsonValue& plan, const OperatorGraph& graph) {
  const auto value = plan.find("recompute");
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

}  // namespace pipesim
