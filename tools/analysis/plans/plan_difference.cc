#include "tools/analysis/plans/plan_difference.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

namespace pipesim {
namespace {

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

}  // namespace pipesim
