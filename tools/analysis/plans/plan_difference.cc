#include "tools/analysis/plans/plan_difference.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <numeric>

#include "tools/base/figures.h"
#include "tools/render/base/table.h"

namespace pipesim {
namespace {

using Json = nlohmann::ordered_json;
using Unit = FigureChange::Unit;

struct Figure {
  std::string_view name, key;
  Unit unit;
  std::int64_t value;
};

Nanoseconds most_of(const std::vector<Nanoseconds>& times) {
  return *std::max_element(times.begin(), times.end());
}

Nanoseconds mean_of(const std::vector<Nanoseconds>& times) {
  return std::accumulate(times.begin(), times.end(), Nanoseconds{0}) / static_cast<Nanoseconds>(times.size());
}

std::int64_t fullest(const std::vector<DeviceMemory>& memory) {
  Bytes most;
  for (const DeviceMemory& m : memory) most = std::max(most, m.peak);
  return most.value;
}

std::vector<Figure> figures_of(const PlanCosts& costs) {
  const PlanReport& r = costs.report;
  std::vector<Figure> figures{
      {"iteration", "iteration_time_s", Unit::Time, r.iteration_time},
      {"critical path, compute", "critical_compute_s", Unit::Time, r.critical.compute},
      {"critical path, communication", "critical_communication_s", Unit::Time, r.critical.communication},
      {"critical path, waiting", "critical_waiting_s", Unit::Time, r.critical.waiting},
      {"compute, busiest device", "compute_most_s", Unit::Time, most_of(r.compute)},
      {"compute, mean of devices", "compute_mean_s", Unit::Time, mean_of(r.compute)},
      {"links busy, busiest device", "links_busy_most_s", Unit::Time, most_of(r.communication)},
      {"links busy, mean of devices", "links_busy_mean_s", Unit::Time, mean_of(r.communication)}};
  constexpr std::array<std::array<std::string_view, 2>, kCommunicationKinds.size()> kMoved{
      {{"moved by all devices, forward", "forward_transfer_bytes"},
       {"moved by all devices, recompute", "recompute_transfer_bytes"},
       {"moved by all devices, backward", "backward_transfer_bytes"},
       {"moved by all devices, gradient sync", "gradient_sync_bytes"},
       {"moved by all devices, gathers of weights", "weight_gather_bytes"},
       {"moved by all devices, inner statistics", "inner_reduce_bytes"},
       {"moved by all devices, round rings", "rotation_bytes"}}};
  for (std::size_t i = 0; i < kMoved.size(); ++i)
    figures.push_back({kMoved[i][0], kMoved[i][1], Unit::Size, costs.moved[i].value});
  figures.push_back({"peak memory, fullest device", "peak_memory_bytes", Unit::Size, fullest(r.memory)});
  return figures;
}

// The same words may stand for other devices, for instance one of every node.
std::string destination(const Operator& op, const ParallelConfig& from, const ParallelConfig& to) {
  const std::string text = to.str(op);
  if (from == to || text != from.str(op)) return text;
  const bool same_devices =
      std::is_permutation(from.devices.begin(), from.devices.end(), to.devices.begin(), to.devices.end());
  return text + (same_devices ? " (in another order)" : " (other devices)");
}

OperatorCosts sum(const std::vector<OperatorCosts>& costs) {
  OperatorCosts all;
  for (const OperatorCosts& c : costs) all += c;
  return all;
}

OperatorCosts sum(const OperatorGroup& group, const std::vector<OperatorCosts>& costs) {
  OperatorCosts all;
  for (const OperatorId op : group.operators) all += costs[op.index()];
  return all;
}

ChangedOperators costed(OperatorGroup group, const CostedPlan& before, const CostedPlan& after) {
  const OperatorCosts cost_before = sum(group, before.costs.operators),
                      cost_after = sum(group, after.costs.operators);
  return {std::move(group), "", "", cost_before, cost_after};
}

ChangedOperators changed_operators(OperatorGroup group, const CostedPlan& before, const CostedPlan& after) {
  const std::size_t first = group.operators.front().index();
  const Operator& op = *after.strategy[first]->op;
  const ParallelConfig &from = before.strategy[first]->config, &to = after.strategy[first]->config;
  ChangedOperators changed = costed(std::move(group), before, after);
  changed.from = from.str(op);
  changed.to = destination(op, from, to);
  return changed;
}

std::string text_of(std::int64_t value, Unit unit) {
  return unit == Unit::Size ? pretty(Bytes(value)) : pretty(to_seconds(value));
}

std::string difference_text(const FigureChange& f) {
  const std::int64_t difference = f.after - f.before;
  if (difference == 0) return "same";
  return (difference < 0 ? "-" : "+") + text_of(std::abs(difference), f.unit);
}

std::string relative_text(const FigureChange& f) {
  if (f.before == 0 || f.after == f.before) return "";
  const double ratio = static_cast<double>(f.after) / static_cast<double>(f.before);
  constexpr double kTooManyPercent = 10;
  return ratio < kTooManyPercent ? fmt::format("{:+.1f} %", 100 * (ratio - 1)) : "x " + significant(ratio, 3);
}

std::string figures_text(const std::vector<FigureChange>& figures, const std::array<std::string, 2>& names) {
  Table table({{""},
               {names[0], Align::Right},
               {names[1], Align::Right},
               {"difference", Align::Right},
               {"", Align::Right}});
  for (const FigureChange& f : figures) {
    if (f.before == 0 && f.after == 0) continue;
    table.add({std::string(f.name), text_of(f.before, f.unit), text_of(f.after, f.unit), difference_text(f),
               relative_text(f)});
  }
  return table.str(2);
}

std::string time_text(Nanoseconds time) { return pretty(to_seconds(time)); }

// Those from `first` on, as one.
ChangedOperators together(const std::vector<ChangedOperators>& changes, std::size_t first) {
  ChangedOperators all;
  for (std::size_t i = first; i < changes.size(); ++i) {
    const std::vector<OperatorId>& operators = changes[i].group.operators;
    all.group.operators.insert(all.group.operators.end(), operators.begin(), operators.end());
    all.before += changes[i].before;
    all.after += changes[i].after;
  }
  all.group.words = fmt::format("… and {} more", changes.size() - first);
  return all;
}

std::string changes_text(const PlanDifference& difference, const OperatorGraph& graph, std::size_t most) {
  const OperatorCosts &before = difference.before, &after = difference.after;
  Table table({{"split before -> now"},
               {"operators", Align::Right},
               {"compute", Align::Right},
               {"compute time, all devices", Align::Right},
               {"time on links, all links", Align::Right},
               {"such as"}});
  const auto arrow = [](const std::string& from, const std::string& to) { return from + " -> " + to; };
  const auto add = [&](const ChangedOperators& c) {
    constexpr std::size_t kNames = 2;
    table.add({c.group.words, std::to_string(c.group.operators.size()),
               arrow(percent(share(c.before.compute, before.compute)),
                     percent(share(c.after.compute, after.compute))),
               arrow(time_text(c.before.compute), time_text(c.after.compute)),
               arrow(time_text(c.before.on_links), time_text(c.after.on_links)),
               some_names(graph, c.group, kNames)});
  };
  const std::size_t shown = std::min(most, difference.changes.size());
  std::for_each_n(difference.changes.begin(), shown, add);
  if (shown < difference.changes.size()) add(together(difference.changes, shown));
  if (!difference.unchanged.group.operators.empty()) add(difference.unchanged);
  return table.str(2);
}

Json pair_json(const Json& before, const Json& after) { return {{"baseline", before}, {"plan", after}}; }

Json costs_json(const ChangedOperators& c, const PlanDifference& difference) {
  return {{"compute_share", pair_json(share(c.before.compute, difference.before.compute),
                                      share(c.after.compute, difference.after.compute))},
          {"compute_s", pair_json(seconds(c.before.compute), seconds(c.after.compute))},
          {"on_links_s", pair_json(seconds(c.before.on_links), seconds(c.after.on_links))},
          {"moved_bytes", pair_json(c.before.moved.value, c.after.moved.value)}};
}

Json change_json(const ChangedOperators& c, const PlanDifference& difference, const OperatorGraph& graph) {
  Json names = Json::array();
  for (const OperatorId op : c.group.operators) names.push_back(graph.op(op).name);
  Json json{{"from", c.from}, {"to", c.to}, {"operators", names}};
  json.update(costs_json(c, difference));
  return json;
}

}  // namespace

PlanDifference plan_difference(const CostedPlan& before, const CostedPlan& after) {
  PlanDifference difference;
  const std::vector<Figure> first = figures_of(before.costs), second = figures_of(after.costs);
  const auto nothing_again = [&](std::size_t i) {
    return first[i].key == "recompute_transfer_bytes" && first[i].value == 0 && second[i].value == 0;
  };
  for (std::size_t i = 0; i < first.size(); ++i) {
    if (nothing_again(i)) continue;
    difference.figures.push_back(
        {first[i].name, first[i].key, first[i].unit, first[i].value, second[i].value});
  }
  difference.before = sum(before.costs.operators);
  difference.after = sum(after.costs.operators);
  std::vector<std::string> words;
  std::vector<Nanoseconds> compute;
  OperatorGroup unchanged{"unchanged", {}, 0};
  for (std::size_t i = 0; i < after.strategy.size(); ++i) {
    const ParallelConfig &from = before.strategy[i]->config, &to = after.strategy[i]->config;
    words.push_back(from == to ? "" : change_words(*after.strategy[i]->op, from, to));
    if (from == to) unchanged.operators.emplace_back(i);
    compute.push_back(std::max(before.costs.operators[i].compute, after.costs.operators[i].compute));
  }
  difference.unchanged = costed(std::move(unchanged), before, after);
  for (OperatorGroup& group : group_operators(words, compute))
    difference.changes.push_back(changed_operators(std::move(group), before, after));
  return difference;
}

std::string change_words(const Operator& op, const ParallelConfig& from, const ParallelConfig& to) {
  return (from.devices == to.devices ? from.split_str(op) : from.str(op)) + " -> " +
         destination(op, from, to);
}

std::string to_text(const PlanDifference& difference, const OperatorGraph& graph,
                    const std::array<std::string, 2>& names, std::size_t most) {
  return figures_text(difference.figures, names) + "\n" + changes_text(difference, graph, most);
}

nlohmann::ordered_json json_of(const PlanDifference& difference, const OperatorGraph& graph) {
  Json figures = Json::object(), changes = Json::array();
  for (const FigureChange& f : difference.figures) {
    figures[std::string(f.key)] =
        f.unit == Unit::Size ? pair_json(f.before, f.after) : pair_json(seconds(f.before), seconds(f.after));
  }
  for (const ChangedOperators& c : difference.changes) changes.push_back(change_json(c, difference, graph));
  Json unchanged{{"operators", difference.unchanged.group.operators.size()}};
  unchanged.update(costs_json(difference.unchanged, difference));
  return Json{{"figures", figures}, {"changes", changes}, {"unchanged", unchanged}};
}

}  // namespace pipesim
