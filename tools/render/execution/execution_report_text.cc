#include "tools/render/execution/execution_report_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <optional>

#include "search/baselines/baselines.h"
#include "tools/base/figures.h"
#include "tools/render/base/table.h"
#include "tools/render/inputs/plan_origin_text.h"
#include "tools/render/plans/plan_report_text.h"

namespace pipesim {
namespace {

using Json = nlohmann::ordered_json;

Json json_of(const std::vector<TimeDifference>& rows) {
  Json list = Json::array();
  for (const TimeDifference& r : rows)
    list.push_back(
        {{"name", r.name}, {"tasks", r.tasks}, {"predicted_s", r.predicted}, {"measured_s", r.measured}});
  return list;
}

// The largest differences, as far as they matter.
std::string differences_text(const std::string& title, const std::vector<TimeDifference>& rows) {
  constexpr std::size_t most = 8;
  if (rows.empty()) return "";
  Table table({{title},
               {"tasks", Align::Right},
               {"predicted", Align::Right},
               {"measured", Align::Right},
               {"difference", Align::Right}});
  for (std::size_t i = 0; i < std::min(most, rows.size()); ++i) {
    const TimeDifference& r = rows[i];
    table.add(
        {r.name, std::to_string(r.tasks), pretty(Seconds(r.predicted)), pretty(Seconds(r.measured)),
         fmt::format("{}{}", r.difference() < 0 ? "-" : "+", pretty(Seconds(std::abs(r.difference()))))});
  }
  return table.str(2) + (rows.size() > most ? fmt::format("  and {} more\n", rows.size() - most) : "") + "\n";
}

std::string memory_text(const ExecutionReport& r, const Topology& topology) {
  const bool arenas = std::ranges::any_of(r.measured_memory, [](const auto& m) { return m.arena.value > 0; });
  std::vector<Table::Column> columns{
      {"peak memory"}, {"predicted", Align::Right}, {"measured", Align::Right}, {"workspace", Align::Right}};
  if (arenas) columns.push_back({"arena", Align::Right});
  Table table(columns);
  for (std::size_t d = 0; d < r.measured_memory.size(); ++d) {
    const MeasuredMemory& m = r.measured_memory[d];
    if (m.peak.value == 0 && r.predicted_memory[d].peak.value == 0) continue;
    std::vector<std::string> row{topology.device(DeviceId(d)).name, pretty(r.predicted_memory[d].peak),
                                 pretty(m.peak), pretty(m.workspace_peak)};
    if (arenas) row.push_back(pretty(m.arena));
    table.add(std::move(row));
  }
  const std::optional<std::string> shortage = memory_shortage(r.predicted_memory, topology);
  std::string verdict;
  if (shortage) {
    verdict = fmt::format("  predicted not to fit: {}\n", *shortage);
  } else if (!topology.memory_margin().is_none()) {
    verdict = fmt::format("  predicted to fit with a margin of {} on every device\n",
                          topology.memory_margin().str());
  }
  return table.str(2) + verdict + "\n";
}

std::string check_text(const ExecutionReport& r) {
  std::string text;
  for (std::size_t s = 0; s < r.equalities.size(); ++s) {
    const StepEquality& e = r.equalities[s];
    if (e.compared == 0) {
      text += fmt::format(
          "  step {}: nothing can be compared, all {} tensors hold rounding errors or no numbers\n", s,
          e.rounding_only);
      continue;
    }
    text += fmt::format("  step {}: {} differs most, by {:.2g}, rounding alone {:.2g}: {}\n", s, e.worst.name,
                        e.worst.error, e.noise, UnsplitReference::equal(e) ? "equal" : "NOT EQUAL");
    if (e.rounding_only > 0)
      text += fmt::format("          {} of {} tensors hold rounding errors, and are left out\n",
                          e.rounding_only, e.rounding_only + e.compared);
  }
  return text.empty() ? "" : "against the unsplit model:\n" + text + "\n";
}

std::string times_text(const ExecutionReport& r, const Subject& subject) {
  std::string text = fmt::format("  predicted iteration  {}", pretty(to_seconds(r.predicted)));
  if (r.interval.iterations > 0)
    text += fmt::format(" ({} to {}: 90 % of {} simulated iterations)", pretty(to_seconds(r.interval.low)),
                        pretty(to_seconds(r.interval.high)), r.interval.iterations);
  text += "\n";
  if (r.measured.steps == 0) return text;
  text += fmt::format("  measured iteration   {} ({} to {}, median of {} iterations",
                      pretty(to_seconds(r.measured.median)), pretty(to_seconds(r.measured.low)),
                      pretty(to_seconds(r.measured.high)), r.measured.steps);
  text += r.measured.preempted > 0 ? fmt::format(", {} of them interrupted{})\n", r.measured.preempted,
                                                 r.not_quiet.empty() ? " and left out" : "")
                                   : ")\n";
  text += fmt::format("  iterations           90 % took {} to {}\n", pretty(to_seconds(r.measured.fast)),
                      pretty(to_seconds(r.measured.slow)));
  if (r.not_quiet.empty()) {
    text += fmt::format("  prediction is off by {:+.1f} % of what was measured\n", 100 * r.error());
  } else {
    text += fmt::format("  {}; no error is given\n", r.not_quiet);
  }
  if (!r.times_by.empty()) text += fmt::format("  times of tasks       by {}\n", r.times_by);
  if (r.links_emulated)
    text += fmt::format("  links                emulated, as those of {}\n", subject.topology.name());
  if (!r.collection_cost.empty()) text += fmt::format("  {}\n", r.collection_cost);
  if (r.noise) text += fmt::format("  equal work differs by {} on this host\n", percent(r.noise->spread));
  text += "  " + pretty_rate(static_cast<double>(samples_per_iteration(subject.graph, subject.plan.options)) /
                             seconds(r.measured.median));
  if (!r.emulated) text += fmt::format("; the executor adds {} a task", pretty(Seconds(r.overhead)));
  text += "\n";
  return text;
}

}  // namespace

nlohmann::ordered_json json_of(const ExecutionReport& r, const Subject& subject) {
  Json json{{"model", subject.graph.name()},
            {"topology", subject.topology.name()},
            {"backend", r.backend},
            {"devices", r.devices},
            {"ranks", r.ranks},
            {"predicted_s", seconds(r.predicted)}};
  if (!subject.others.empty()) json["made_for"] = json_of(subject.others);
  if (!r.times_by.empty()) json["times_by"] = r.times_by;
  if (r.links_emulated) json["links_emulated"] = true;
  if (!r.collection_cost.empty()) json["collection_cost"] = r.collection_cost;
  if (r.interval.iterations > 0) {
    json["predicted_interval_s"] = {{"median", seconds(r.interval.median)},
                                    {"low", seconds(r.interval.low)},
                                    {"high", seconds(r.interval.high)},
                                    {"share", 0.9},
                                    {"iterations", r.interval.iterations}};
  }
  if (r.measured.steps > 0) {
    json["measured_s"] = {{"median", seconds(r.measured.median)},
                          {"low", seconds(r.measured.low)},
                          {"high", seconds(r.measured.high)}};
    json["measured_interval_s"] = {
        {"low", seconds(r.measured.fast)}, {"high", seconds(r.measured.slow)}, {"share", 0.9}};
    json["iterations"] = {
        {"measured", r.measured.steps}, {"interrupted", r.measured.preempted}, {"spread", r.measured.spread}};
    if (r.noise) json["host"] = {{"noise", r.noise->spread}, {"realtime", r.noise->realtime}};
    if (r.not_quiet.empty()) {
      json["error"] = r.error();
    } else {
      json["not_quiet"] = r.not_quiet;
    }
    json["overhead_per_task_s"] = r.overhead;
    json["operators"] = json_of(r.operators);
    json["links"] = json_of(r.links);
  }
  Json memory = Json::array();
  for (std::size_t d = 0; d < r.measured_memory.size(); ++d) {
    memory.push_back({{"device", subject.topology.device(DeviceId(d)).name},
                      {"predicted_bytes", r.predicted_memory[d].peak.value},
                      {"measured_bytes", r.measured_memory[d].peak.value},
                      {"workspace_bytes", r.measured_memory[d].workspace_peak.value}});
    if (r.measured_memory[d].arena.value > 0) memory.back()["arena_bytes"] = r.measured_memory[d].arena.value;
  }
  json["memory"] = std::move(memory);
  if (const std::string idle = idle_devices(subject.plan.strategy, subject.graph, subject.topology);
      !idle.empty())
    json["idle_devices"] = idle;
  const std::optional<std::string> shortage = memory_shortage(r.predicted_memory, subject.topology);
  json["fits"] = !shortage;
  if (!subject.topology.memory_margin().is_none())
    json["memory_margin"] = subject.topology.memory_margin().str();
  if (shortage) json["infeasible"] = *shortage;
  if (!r.losses.empty()) json["loss"] = r.losses;
  for (const StepEquality& e : r.equalities) {
    json["check"].push_back({{"worst", e.worst.name},
                             {"error", e.worst.error},
                             {"rounding", e.noise},
                             {"compared", e.compared},
                             {"left_out", e.rounding_only},
                             {"equal", UnsplitReference::equal(e)}});
  }
  return json;
}

std::string to_text(const ExecutionReport& r, const Subject& subject) {
  std::string text =
      fmt::format("{} on {}, {}: {} {} device{}{}\n\n", subject.graph.name(), subject.topology.name(),
                  batch_text(subject.graph, subject.plan.options), r.devices, r.backend,
                  r.devices == 1 ? "" : "s", r.ranks > 1 ? fmt::format(" in {} processes", r.ranks) : "");
  if (!subject.others.empty()) text += to_text(subject.others) + "\n";
  if (const std::string idle = idle_devices(subject.plan.strategy, subject.graph, subject.topology);
      !idle.empty())
    text += fmt::format("  {}\n\n", idle);
  text += check_text(r);
  text += times_text(r, subject) + "\n";
  text += differences_text("operators, all devices together", r.operators);
  text += differences_text("transfers", r.links);
  text += memory_text(r, subject.topology);
  if (!r.losses.empty())
    text += fmt::format("  loss {:.6g} in the first step, {:.6g} in the last\n", r.losses.front(),
                        r.losses.back());
  return text;
}

}  // namespace pipesim
