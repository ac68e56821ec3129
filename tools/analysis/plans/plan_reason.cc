#include "tools/analysis/plans/plan_reason.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <set>
#include <tuple>

#include "sim/base/suggest.h"
#include "tools/analysis/plans/operator_words.h"

namespace pipesim {
namespace {

DeviceMemory fullest_device(const std::vector<DeviceMemory>& memory) {
  return *std::ranges::max_element(memory, {}, &DeviceMemory::peak);
}

// "4 stages of 4 devices each"; "" without a pipeline.
std::string stages_in_words(const ReasonedPlan& plan) {
  if (!plan.options.pipeline) return "";
  const Pipeline& pipeline = *plan.options.pipeline;
  std::vector<std::set<DeviceId>> devices(static_cast<std::size_t>(pipeline.num_stages()));
  for (std::size_t i = 0; i < plan.strategy.size(); ++i) {
    const std::vector<DeviceId>& used = plan.strategy[i]->config.devices;
    devices[static_cast<std::size_t>(pipeline.stage_of[i])].insert(used.begin(), used.end());
  }
  const std::string stages = counted(pipeline.num_stages(), "stage");
  const auto size = static_cast<std::int64_t>(devices.front().size());
  const auto other = [&](const std::set<DeviceId>& d) { return static_cast<std::int64_t>(d.size()) != size; };
  if (std::ranges::any_of(devices, other)) return stages + " on devices of their own";
  return fmt::format("{} of {}{}", stages, counted(size, "device"), pipeline.num_stages() > 1 ? " each" : "");
}

std::string recompute_in_words(const Recompute& recompute) {
  return recompute.kind == Recompute::Kind::None ? "no recompute"
                                                 : fmt::format("recompute {}", in_words(recompute));
}

std::string whole_in_words(const ReasonedPlan& before, const ReasonedPlan& after) {
  std::vector<std::string> words;
  const std::string stages_before = stages_in_words(before), stages = stages_in_words(after);
  if (stages != stages_before) words.push_back(stages.empty() ? "no pipeline" : stages);
  if (before.options.microbatches != after.options.microbatches)
    words.push_back(fmt::format("{} instead of {}", counted(after.options.microbatches, "microbatch"),
                                before.options.microbatches));
  if (before.options.recompute != after.options.recompute)
    words.push_back(recompute_in_words(after.options.recompute));
  return fmt::format("{}", fmt::join(words, ", "));
}

// What tells configs with the same words apart.
std::string degrees_in_words(const Operator& op, const ParallelConfig& config) {
  return fmt::format("split {} on {}", config.split_str(op),
                     counted(static_cast<std::int64_t>(config.devices.size()), "device"));
}

// The operator may have other factors in both plans, as where samples are whole in one model and token groups
// in the other.
std::pair<std::string, std::string> change_in_words(const BoundOperator& from, const BoundOperator& to) {
  std::string before = split_in_words(*from.op, from.config), after = split_in_words(*to.op, to.config);
  if (before != after) return {before, after};
  before = degrees_in_words(*from.op, from.config);
  after = degrees_in_words(*to.op, to.config);
  return before == after ? std::pair(before, after + " (others)") : std::pair(before, after);
}

Nanoseconds sum_of(const TimeParts& parts) {
  return std::accumulate(parts.begin(), parts.end(), Nanoseconds{0});
}

OperatorCosts all_of(const std::vector<SplitChange>& changes, OperatorCosts SplitChange::*costs) {
  OperatorCosts all;
  for (const SplitChange& c : changes) all += c.*costs;
  return all;
}

// `part` of `whole`, of a time.
Nanoseconds proportion(Nanoseconds time, Nanoseconds part, Nanoseconds whole) {
  return whole == 0 ? 0
                    : static_cast<Nanoseconds>(static_cast<double>(time) * static_cast<double>(part) /
                                               static_cast<double>(whole));
}

Nanoseconds sum_of(const CommunicationTimes& times) {
  return std::accumulate(times.begin(), times.end(), Nanoseconds{0});
}

void weigh(PlanReason& r) {
  constexpr auto kTransfers = static_cast<std::size_t>(TimePart::Transfers);
  const std::array<OperatorCosts, 2> all{all_of(r.changes, &SplitChange::before),
                                         all_of(r.changes, &SplitChange::after)};
  for (SplitChange& c : r.changes) {
    for (std::size_t plan = 0; plan < 2; ++plan) {
      for (std::size_t k = 0; k < kCommunicationKinds.size(); ++k)
        c.waiting[plan][k] =
            proportion(r.parts[plan][kTransfers], (plan == 0 ? c.before : c.after).critical_by[k],
                       sum_of(all[plan].critical_by));
    }
    c.gain = (c.before.compute - c.after.compute) / r.devices + sum_of(c.waiting[0]) - sum_of(c.waiting[1]);
  }
  std::ranges::stable_sort(r.changes, {},
                           [](const SplitChange& c) { return std::pair(c.operators.empty(), -c.gain); });
}

// Operators' costs with transfers as a SplitChange counts them.
std::vector<OperatorCosts> costs_of_changes(const OperatorGraph& graph, const PlanCosts& costs,
                                            const std::vector<bool>& changed) {
  std::vector<OperatorCosts> operators = costs.operators;
  for (std::size_t t = 0; t < costs.tensors.size(); ++t) {
    const TensorCosts& tensor = costs.tensors[t];
    if (!tensor.counts_for.valid()) continue;
    const auto readers = graph.consumers(TensorId(t));
    const auto reader =
        std::ranges::find_if(readers, [&](const auto& use) { return changed[use.op.index()]; });
    if (reader == readers.end()) continue;
    operators[tensor.counts_for.index()] -= tensor.costs;
    operators[reader->op.index()] += tensor.costs;
  }
  return operators;
}

std::vector<SplitChange> changes_of(const OperatorGraph& graph, const ReasonedPlan& before,
                                    const ReasonedPlan& after) {
  std::vector<bool> changed;
  for (std::size_t i = 0; i < after.strategy.size(); ++i)
    changed.push_back(before.strategy[i]->config != after.strategy[i]->config);
  const std::vector<OperatorCosts> costs_before = costs_of_changes(graph, before.costs, changed),
                                   costs_after = costs_of_changes(graph, after.costs, changed);
  std::map<std::tuple<std::string, std::string, std::string>, SplitChange> by_words;
  for (std::size_t i = 0; i < after.strategy.size(); ++i) {
    const Operator& op = *after.strategy[i]->op;
    const BoundOperator &from = *before.strategy[i], &to = *after.strategy[i];
    const auto [was, is] = changed[i] ? change_in_words(from, to) : std::pair<std::string, std::string>();
    SplitChange& change = by_words[{changed[i] ? op.kind : "", was, is}];
    change.from = was;
    change.to = is;
    change.members.emplace_back(i);
    change.before += costs_before[i];
    change.after += costs_after[i];
  }
  std::vector<SplitChange> changes;
  for (auto& [words, change] : by_words) {
    if (!change.to.empty()) change.operators = operators_in_words(graph, change.members);
    changes.push_back(std::move(change));
  }
  return changes;
}

}  // namespace

TimeParts time_parts(const PlanReport& report) {
  const Nanoseconds whole = report.iteration_time;
  const auto devices = static_cast<Nanoseconds>(report.compute.size());
  const Nanoseconds all = std::accumulate(report.compute.begin(), report.compute.end(), Nanoseconds{0});
  const Nanoseconds mean = std::min(whole, all / devices);
  const Nanoseconds busiest = std::min(whole, *std::ranges::max_element(report.compute));
  const Nanoseconds idle = whole - busiest;
  const Nanoseconds transfers = std::min(idle, report.critical.communication + report.critical.waiting);
  return {mean, busiest - mean, transfers, idle - transfers};
}

PlanReason plan_reason(const OperatorGraph& graph, const ReasonedPlan& before, const ReasonedPlan& after,
                       const std::string& infeasible) {
  PlanReason r;
  r.baseline = before.name;
  r.infeasible = infeasible;
  r.whole = whole_in_words(before, after);
  r.parts = {time_parts(before.costs.report), time_parts(after.costs.report)};
  r.before = sum_of(r.parts[0]);
  r.after = sum_of(r.parts[1]);
  r.devices = static_cast<std::int64_t>(after.costs.report.compute.size());
  r.moved = {before.costs.moved, after.costs.moved};
  r.memory = {fullest_device(before.costs.report.memory), fullest_device(after.costs.report.memory)};
  r.changes = changes_of(graph, before, after);
  weigh(r);
  return r;
}

PlanReason same_plan(const Baseline& baseline) {
  PlanReason r;
  r.baseline = baseline.name;
  r.infeasible = baseline.infeasible;
  r.same = true;
  return r;
}

PlanReason times_alone(const std::string& baseline, const Evaluation& before, Nanoseconds after) {
  PlanReason r;
  r.baseline = baseline;
  if (!before.feasible()) r.infeasible = fmt::format("{} are missing", pretty(before.overflow));
  r.detailed = false;
  r.before = before.time;
  r.after = after;
  return r;
}

}  // namespace pipesim
