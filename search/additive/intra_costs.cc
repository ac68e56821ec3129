#include "search/additive/intra_costs.h"

#include <algorithm>
#include <optional>

#include "search/baselines/baselines.h"
#include "search/intra/check_answer.h"
#include "search/intra/narrow.h"
#include "sim/base/deadline.h"

namespace pipesim {
namespace {

// Of bounds and searches for answers in turn: while costs are still bounds, a good answer will do.
constexpr std::uint64_t kRoundsToPlan = 4;
// After so many answers, choices are left out that none as good as the best of them has.
constexpr int kAnswersToNarrow = 5;

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

std::int64_t least_usage(const IntraInstance& instance) {
  std::int64_t sum = 0;
  for (const IntraInstance::Node& node : instance.nodes) sum += std::ranges::min(node.usage);
  return sum;
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
                       const std::vector<DeviceId>& devices, std::vector<Strategy> starts,
                       std::size_t most_choices)
    : evaluator_(graph, costs, options),
      candidates_(graph, costs.topology(), {{"all of these", devices}}),
      starts_(std::move(starts)),
      space_(candidates_, starts_),
      units_(repeated_operators(candidates_)),
      additive_(space_, units_, evaluator_, numbered_in(space_, starts_), most_choices) {}

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
                                        const PlannedSolving& how,
                                        const std::function<void(std::int64_t)>& looked) {
  IntraSettings settings = how.settings;
  const std::uint64_t first_rounds = std::min(kRoundsToPlan, settings.rounds);
  settings.rounds = first_rounds;
  std::optional<NarrowedChoices> within;
  IntraSolution best;  // of answers whose costs are planned
  IntraInstance known = instance(part, in_flight, limit);
  if (least_usage(known) > limit.value) {
    IntraSolution none;
    none.proven = true;
    return none;
  }
  for (int answers = 1;; ++answers) {
    stop_if_late();
    if (looked) looked(additive_.planned());
    IntraInstance narrowed = known;
    if (within) forbid_others(narrowed, *within);
    IntraSolution solution = solve(narrowed, settings);
    const bool whole = settings.rounds == how.settings.rounds || solution.proven;
    const bool planned = !solution.found || !additive_.plan(solution.answer, part);
    if (whole && planned) {
      const bool found_better = solution.found && (!best.found || solution.cost <= best.cost);
      return found_better || !best.found ? solution : best;
    }
    settings.rounds = planned ? how.settings.rounds : first_rounds;
    if (!solution.found) continue;
    if (!planned) known = instance(part, in_flight, limit);
    const WideCost bound = std::max(best.bound, solution.bound);
    solution.cost = check_answer(known, solution.answer).cost;
    if (!best.found || solution.cost < best.cost) best = std::move(solution);
    best.bound = bound;
    best.proven = false;
    if (answers >= how.most_answers && !how.plans_before_proof) return best;
    if (answers % kAnswersToNarrow != 0 && !planned) continue;
    within = choices_within(known, best.cost);
    const bool all = how.plans_before_proof && (planned || answers >= how.most_answers);
    if (!all && additive_.to_plan(*within, part) > how.at_once) continue;
    additive_.plan_all(*within, part);
    known = instance(part, in_flight, limit);
  }
}

Bytes IntraCosts::held(const IntraAnswer& answer, const AdditiveCounts& part, std::int64_t in_flight) {
  Bytes sum;
  const std::vector<std::vector<Bytes>> held = additive_.held(part, in_flight);
  for (std::size_t u = 0; u < held.size(); ++u) sum += held[u][answer[u]];
  return sum;
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

Bytes IntraCosts::least_held() { return Bytes(least_usage(instance(Bytes(0)))); }

Bytes IntraCosts::usable() const {
  const Topology& topology = evaluator_.topology();
  Bytes least = topology.usable_memory(DeviceId(0));
  for (std::size_t d = 1; d < topology.num_devices(); ++d)
    least = std::min(least, topology.usable_memory(DeviceId(d)));
  return least;
}

double IntraCosts::seconds_of(WideCost cost) { return static_cast<double>(cost) * AdditiveCosts::kUnit; }

}  // namespace pipesim
