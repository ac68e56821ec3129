#include "search/additive/intra_costs.h"

#include <algorithm>
#include <cmath>

#include "search/baselines/baselines.h"

namespace pipesim {
namespace {

constexpr double kPicosecond = 1e-12;

std::int64_t picoseconds(double seconds) {
  return std::min(kForbidden, static_cast<std::int64_t>(std::llround(seconds / kPicosecond)));
}

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

}  // namespace

IntraCosts::IntraCosts(const OperatorGraph& graph, const CostModel& costs, const PlanOptions& options)
    : evaluator_(graph, costs, options),
      candidates_(graph, costs.topology()),
      starts_(people_start_with(graph, costs)),
      space_(candidates_, starts_),
      units_(repeated_operators(candidates_)),
      additive_(space_, units_, evaluator_, numbered_in(space_, starts_)),
      held_(additive_.held()) {}

IntraInstance IntraCosts::instance(Bytes limit) const {
  const MinSumProblem problem = additive_.problem({});
  IntraInstance instance;
  instance.unit = kPicosecond;
  instance.limit = limit.value;
  for (std::size_t u = 0; u < problem.own.size(); ++u) {
    IntraInstance::Node& node = instance.nodes.emplace_back();
    node.end = 1;
    for (const double seconds : problem.own[u]) node.cost.push_back(picoseconds(seconds));
    for (const Bytes bytes : held_[u]) node.usage.push_back(bytes.value);
  }
  for (const MinSumProblem::Pair& pair : problem.pairs) {
    IntraInstance::Edge& edge = instance.edges.emplace_back();
    edge.a = static_cast<std::uint32_t>(pair.a);
    edge.b = static_cast<std::uint32_t>(pair.b);
    for (const double seconds : pair.cost) edge.cost.push_back(picoseconds(seconds));
  }
  return instance;
}

bool IntraCosts::plan(const IntraAnswer& answer) { return additive_.plan({answer.begin(), answer.end()}); }

Strategy IntraCosts::strategy(const IntraAnswer& answer) const {
  return space_.strategy(additive_.configs({answer.begin(), answer.end()}));
}

std::vector<std::vector<std::string>> IntraCosts::strategy_names() const {
  std::vector<std::vector<std::string>> names(held_.size());
  std::vector<std::size_t> choice(held_.size(), 0);
  for (std::size_t u = 0; u < held_.size(); ++u) {
    const OperatorId first = units_[u].front();
    for (choice[u] = 0; choice[u] < held_[u].size(); ++choice[u]) {
      const std::size_t config = additive_.configs(choice)[first.index()];
      names[u].push_back(space_.config(first, config).str(evaluator_.graph().op(first)));
    }
    choice[u] = 0;
  }
  return names;
}

Bytes IntraCosts::least_held() const {
  Bytes sum;
  for (const std::vector<Bytes>& strategies : held_) sum += std::ranges::min(strategies);
  return sum;
}

Bytes IntraCosts::usable() const {
  const Topology& topology = evaluator_.topology();
  Bytes least = topology.usable_memory(DeviceId(0));
  for (std::size_t d = 1; d < topology.num_devices(); ++d)
    least = std::min(least, topology.usable_memory(DeviceId(d)));
  return least;
}

double IntraCosts::seconds_of(WideCost cost) { return static_cast<double>(cost) * kPicosecond; }

}  // namespace pipesim
