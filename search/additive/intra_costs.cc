#include "search/additive/intra_costs.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "search/baselines/baselines.h"
#include "search/intra/check_answer.h"
#include "search/intra/narrow.h"
#include "sim/base/deadline.h"

namespace pipesim {
namespace {

// A solve takes so many rounds while costs are still bounds: planning follows it, so a good answer will do.
constexpr std::uint64_t kRoundsToPlan = 4;
// After every so many answers, only choices stay that an answer as good as the best so far may have.
constexpr int kAnswersToNarrow = 5;

std::vector<Strategy> people_start_with(const OperatorGraph& graph, const CostModel& costs) {
  std::vector<Strategy> starts;
  for (const char* name : {"data-parallel", "expert"})
    starts.push_back(baseline_strategy(name, graph, costs));
  return starts;
}

// Each operator as a whole on every device, which every mesh has.
Strategy copied_everywhere(const CandidateSet& candidates) {
  const OperatorGraph& graph = candidates.graph();
  Strategy strategy;
  for (std::size_t i = 0; i < graph.operators().size(); ++i) {
    CandidateSet::Split whole{std::vector<std::int32_t>(graph.operators()[i].factors.size(), 1)};
    whole.replicas = static_cast<std::int32_t>(candidates.topology().num_devices());
    strategy.push_back(CandidateSet::place(whole, candidates.list(0, 0).devices));
  }
  return strategy;
}

CandidateSet candidates_on(const MeshAxes& mesh, const OperatorGraph& graph, const Topology& topology) {
  if (mesh.empty()) return CandidateSet(graph, topology);
  return CandidateSet(graph, topology, mesh);
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

// Calls visit(node, edge to it, edge from it) for nodes that PairUsages adds.
template <class Visit>
void visit_added(const IntraInstance& instance, std::size_t units, Visit visit) {
  for (std::size_t node = units; node < instance.nodes.size(); ++node) {
    const auto to = std::ranges::find(instance.edges, node, &IntraInstance::Edge::b);
    const auto from = std::ranges::find(instance.edges, node, &IntraInstance::Edge::a);
    visit(node, *to, *from);
  }
}

}  // namespace

IntraCosts::IntraCosts(const OperatorGraph& graph, const CostModel& costs, const PlanOptions& options,
                       const MeshAxes& mesh)
    : evaluator_(graph, costs, options),
      candidates_(candidates_on(mesh, graph, costs.topology())),
      starts_(mesh.empty() ? people_start_with(graph, costs)
                           : std::vector<Strategy>{copied_everywhere(candidates_)}),
      space_(candidates_, starts_),
      units_(repeated_operators(candidates_)),
      additive_(space_, units_, evaluator_, numbered_in(space_, starts_)),
      counts_moves_(true) {}

IntraCosts::IntraCosts(const OperatorGraph& graph, const CostModel& costs, const PlanOptions& options,
                       const std::vector<DeviceId>& devices, std::vector<Strategy> starts,
                       std::size_t most_choices)
    : evaluator_(graph, costs, options),
      candidates_(graph, costs.topology(), {{"all of these", devices}}),
      starts_(std::move(starts)),
      space_(candidates_, starts_),
      units_(repeated_operators(candidates_)),
      additive_(space_, units_, evaluator_, numbered_in(space_, starts_), most_choices),
      counts_moves_(false) {}

PairUsages IntraCosts::problem(const AdditiveCounts& part, std::int64_t in_flight, Bytes limit) {
  IntraInstance instance = additive_.instance({}, part);
  instance.limit = limit.value;
  const std::vector<std::vector<Bytes>> held = additive_.held(part, in_flight);
  for (std::size_t u = 0; u < held.size(); ++u) {
    instance.nodes[u].end = 1;
    for (std::size_t c = 0; c < held[u].size(); ++c) instance.nodes[u].usage[c] = held[u][c].value;
  }
  std::vector<std::vector<std::int64_t>> of_pairs;
  if (counts_moves_) {
    for (const std::vector<Bytes>& of_edge : additive_.held_of_moves(part, in_flight)) {
      of_pairs.emplace_back();
      for (const Bytes bytes : of_edge) of_pairs.back().push_back(bytes.value);
    }
  }
  return {std::move(instance), of_pairs};
}

IntraSolution IntraCosts::solve_planned(const AdditiveCounts& part, std::int64_t in_flight, Bytes limit,
                                        const PlannedSolving& how,
                                        const std::function<void(std::int64_t)>& looked) {
  IntraSettings settings = how.settings;
  const std::uint64_t first_rounds = std::min(kRoundsToPlan, settings.rounds);
  settings.rounds = first_rounds;
  std::optional<NarrowedChoices> within;
  IntraSolution best;  // of answers whose costs are planned
  PairUsages known = problem(part, in_flight, limit);
  if (least_usage(known.instance()) > limit.value) {
    IntraSolution none;
    none.proven = true;
    return none;
  }
  for (int answers = 1;; ++answers) {
    stop_if_late();
    if (looked) looked(additive_.planned());
    PairUsages narrowed = known;
    if (within) narrowed.forbid_others(*within);
    IntraSolution solution = solve(narrowed.instance(), settings);
    if (solution.found) solution.answer = known.shortened(std::move(solution.answer));
    const bool whole = settings.rounds == how.settings.rounds || solution.proven;
    const bool planned = !solution.found || !additive_.plan(solution.answer, part);
    if (whole && planned) {
      const bool found_better = solution.found && (!best.found || solution.cost <= best.cost);
      return found_better || !best.found ? solution : best;
    }
    settings.rounds = planned ? how.settings.rounds : first_rounds;
    if (!solution.found) continue;
    if (!planned) known = problem(part, in_flight, limit);
    const WideCost bound = std::max(best.bound, solution.bound);
    const CheckedAnswer checked = check_answer(known.instance(), known.extended(solution.answer));
    solution.cost = checked.cost;
    // What was planned may need more memory than its bound.
    if (checked.feasible() && (!best.found || solution.cost < best.cost)) best = std::move(solution);
    best.bound = bound;
    best.proven = false;
    if (answers >= how.most_answers && !how.plans_before_proof) return best;
    if (!best.found || (answers % kAnswersToNarrow != 0 && !planned)) continue;
    within = known.shortened(choices_within(known.instance(), best.cost));
    const bool all = how.plans_before_proof && (planned || answers >= how.most_answers);
    if (!all && additive_.to_plan(*within, part) > how.at_once) continue;
    additive_.plan_all(*within, part);
    known = problem(part, in_flight, limit);
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

std::vector<std::string> IntraCosts::node_names(const IntraInstance& instance) const {
  std::vector<std::string> names;
  for (const std::vector<OperatorId>& unit : units_) {
    names.push_back(evaluator_.graph().op(unit.front()).name);
    if (unit.size() > 1) names.back() += fmt::format(" and {} like it", unit.size() - 1);
  }
  visit_added(instance, units_.size(),
              [&](std::size_t, const IntraInstance::Edge& from, const IntraInstance::Edge& to) {
                names.push_back(fmt::format("what {} keeps of {}", names[to.b], names[from.a]));
              });
  return names;
}

std::vector<std::vector<std::string>> IntraCosts::strategy_names(const IntraInstance& instance) const {
  std::vector<std::vector<std::string>> names(units_.size());
  IntraAnswer choice(names.size(), 0);
  for (std::size_t u = 0; u < names.size(); ++u) {
    const OperatorId first = units_[u].front();
    for (choice[u] = 0; choice[u] < instance.nodes[u].cost.size(); ++choice[u]) {
      const std::size_t config = additive_.configs(choice)[first.index()];
      names[u].push_back(space_.config(first, config).str(evaluator_.graph().op(first)));
    }
    choice[u] = 0;
  }
  visit_added(
      instance, names.size(),
      [&](std::size_t node, const IntraInstance::Edge&, const IntraInstance::Edge& to) {
        std::vector<std::string> of_node;
        const std::vector<std::int64_t>& usage = instance.nodes[node].usage;
        for (std::size_t s = 0; s < usage.size(); ++s) {
          const std::size_t columns = to.cost.size() / usage.size();
          const auto row = to.cost.begin() + static_cast<std::ptrdiff_t>(s * columns);
          const auto column =
              static_cast<std::size_t>(std::find(row, row + static_cast<std::ptrdiff_t>(columns), 0) - row);
          of_node.push_back(fmt::format("{}, keeps {} more", names[to.b][column], pretty(Bytes(usage[s]))));
        }
        names.push_back(std::move(of_node));
      });
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
