#include "search/additive/intra_costs.h"

#include <algorithm>
#include <optional>

#include "search/baselines/baselines.h"
#include "search/intra/check_answer.h"
#include "search/intra/narrow.h"
#include "sim/base/deadline.h"

namespace pipesim {
namespace {

// Of bounds and searches for answers in turn: while costs are still bounds, a good answer will do. What is
// not solved in the end is told with its gap.
constexpr std::uint64_t kRoundsToPlan = 2, kRoundsInTheEnd = 60;
// After so many answers, choices are left out that none as good as the best of them has. Then all that the
// others move is planned at once where that is little, and in the end whatever it is.
constexpr int kAnswersToNarrow = 5, kMostAnswersPlanned = 40;
constexpr std::size_t kLittle = 2000;

std::vector<Strategy> people_start_with(const OperatorGraph& graph, const CostModel& costs) {
  std::vector<Strategy> starts;
  for (const char* name : {"data-parallel", "expert"})
    starts.push_back(baseline_strategy(name, graph, costs));
  return starts;
}

std::vector<std::vector<std::size_t>> numbered_in(const ConfigSpace& space,
                                                  const std::vector<Strategy>& starts) {
  std::vector<std::vector<std::size_t>> numbers;
  for (const Strategy& start : starts) numbers.push_back(space.indices(start));
  return numbers;
}

void forbid_others(IntraInstance& instance, const NarrowedChoices& within) {
  const auto forbid = [](std::vector<std::int64_t>& costs, const std::vector<bool>& kept) {
    for (std::size_t i = 0; i < costs.size(); ++i) {
      if (!kept[i]) costs[i] = kForbidden;
    }
  };
  for (std::size_t i = 0; i < instance.nodes.size(); ++i)
    forbid(instance.nodes[i].cost, within.strategies[i]);
  for (std::size_t e = 0; e < instance.edges.size(); ++e) forbid(instance.edges[e].cost, within.pairs[e]);
}

}  // namespace

IntraCosts::IntraCosts(const OperatorGraph& graph, const CostModel& costs, const PlanOptions& options)
    : evaluator_(graph, costs, options),
      candidates_(graph, costs.topology()),
      starts_(people_start_with(graph, costs)),
      space_(candidates_, starts_),
      units_(repeated_operators(candidates_)),
      additive_(space_, units_, evaluator_, numbered_in(space_, starts_)) {}

IntraCosts::IntraCosts(const OperatorGraph& graph, const CostModel& costs, const PlanOptions& options,
                       const std::vector<DeviceId>& devices, std::vector<Strategy> starts)
    : evaluator_(graph, costs, options),
      candidates_(graph, costs.topology(), {{"all of these", devices}}),
      starts_(std::move(starts)),
      space_(candidates_, starts_),
      units_(repeated_operators(candidates_)),
      additive_(space_, units_, evaluator_, numbered_in(space_, starts_)) {}

IntraInstance IntraCosts::instance(const AdditiveCounts& part, std::int64_t in_flight, Bytes limit) {
  IntraInstance instance = additive_.instance({}, part);
  instance.limit = limit.value;
  const std::vector<std::vector<Bytes>> held = additive_.held(part, in_flight);
  for (std::size_t u = 0; u < held.size(); ++u) {
    instance.nodes[u].end = 1;
    for (std::size_t c = 0; c < held[u].size(); ++c) instance.nodes[u].usage[c] = held[u][c].value;
  }
  return instance;
}

IntraSolution IntraCosts::solve_planned(const AdditiveCounts& part, std::int64_t in_flight, Bytes limit,
                                        int threads, const std::function<void(std::int64_t)>& looked) {
  IntraSettings settings;
  settings.threads = static_cast<std::size_t>(std::max(1, threads));
  settings.rounds = kRoundsToPlan;
  std::optional<NarrowedChoices> within;
  std::optional<WideCost> best;  // of answers whose costs are planned
  IntraInstance known = instance(part, in_flight, limit);
  for (int answers = 1;; ++answers) {
    stop_if_late();
    if (looked) looked(additive_.planned());
    IntraInstance narrowed = known;
    if (within) forbid_others(narrowed, *within);
    IntraSolution solution = solve(narrowed, settings);
    const bool whole = settings.rounds == kRoundsInTheEnd || solution.proven;
    const bool planned = !solution.found || !additive_.plan(solution.answer, part);
    if (whole && planned) return solution;
    settings.rounds = planned ? kRoundsInTheEnd : kRoundsToPlan;
    if (!solution.found) continue;
    if (!planned) known = instance(part, in_flight, limit);
    const WideCost cost = check_answer(known, solution.answer).cost;
    best = best ? std::min(*best, cost) : cost;
    if (answers % kAnswersToNarrow != 0 && !planned) continue;
    within = choices_within(known, *best);
    if (!planned && answers < kMostAnswersPlanned && additive_.to_plan(*within, part) > kLittle) continue;
    additive_.plan_all(*within, part);
    known = instance(part, in_flight, limit);
  }
}

void IntraCosts::plan_all() {
  const IntraInstance whole = additive_.instance({}, all());
  NarrowedChoices every;
  for (const IntraInstance::Node& node : whole.nodes) every.strategies.emplace_back(node.cost.size(), true);
  for (const IntraInstance::Edge& edge : whole.edges) every.pairs.emplace_back(edge.cost.size(), true);
  additive_.plan_all(every, all());
}

Strategy IntraCosts::strategy(const IntraAnswer& answer) const {
  return space_.strategy(additive_.configs(answer));
}

std::vector<std::vector<std::string>> IntraCosts::strategy_names() {
  const IntraInstance whole = additive_.instance({}, all());
  std::vector<std::vector<std::string>> names(whole.nodes.size());
  IntraAnswer choice(whole.nodes.size(), 0);
  for (std::size_t u = 0; u < names.size(); ++u) {
    const OperatorId first = units_[u].front();
    for (choice[u] = 0; choice[u] < whole.nodes[u].cost.size(); ++choice[u]) {
      const std::size_t config = additive_.configs(choice)[first.index()];
      names[u].push_back(space_.config(first, config).str(evaluator_.graph().op(first)));
    }
    choice[u] = 0;
  }
  return names;
}

Bytes IntraCosts::least_held() {
  Bytes sum;
  for (const std::vector<Bytes>& strategies : additive_.held(all(), 1)) sum += std::ranges::min(strategies);
  return sum;
}

Bytes IntraCosts::usable() const {
  const Topology& topology = evaluator_.topology();
  Bytes least = topology.usable_memory(DeviceId(0));
  for (std::size_t d = 1; d < topology.num_devices(); ++d)
    least = std::min(least, topology.usable_memory(DeviceId(d)));
  return least;
}

double IntraCosts::seconds_of(WideCost cost) { return static_cast<double>(cost) * AdditiveCosts::kUnit; }

}  // namespace pipesim
