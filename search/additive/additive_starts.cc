#include "search/additive/additive_starts.h"

#include <algorithm>
#include <array>
#include <limits>
#include <tuple>

#include "search/intra/solve.h"
#include "sim/base/deadline.h"
#include "sim/base/errors.h"
#include "taskgraph/expansion/editable_task_graph.h"

namespace pipesim {
namespace {

constexpr std::uint64_t kRoundsOfSum = 2;  // of the solver, where elimination needs too much memory
constexpr int kMostPlannings = 10;         // of planning what a solution moves and solving again
constexpr std::int64_t kMostPlans = 1500;  // of 64 devices, after which bounds must do
constexpr double kNear = 1.1;              // of the best

struct Shares {
  double transfers, synchronisation;
};
constexpr std::array<Shares, 6> kShares{{{1, 1}, {1, 0.3}, {0.3, 1}, {0.3, 0.3}, {0.1, 0.3}, {0.1, 0.1}}};
// 0: units compute one after the other. Else they compute side by side, and none may take more than this
// share of the least time so far.
constexpr std::array<double, 4> kUnitShares{0, 0.8, 0.5, 0.25};

IntraAnswer answer_of(const IntraInstance& instance) {
  IntraSettings settings;
  settings.rounds = kRoundsOfSum;
  IntraSolution solution = solve(instance, settings);
  stop_if_late();
  if (!solution.found) throw InternalError("a sum without limits has no least choice");
  return std::move(solution.answer);
}

std::vector<std::size_t> least_sum(AdditiveCosts& costs, const AdditiveWeights& weights, std::int64_t plans,
                                   const std::function<bool()>& go_on) {
  IntraAnswer answer = answer_of(costs.instance(weights, costs.all()));
  for (int round = 1; round < kMostPlannings && costs.planned() < plans && go_on(); ++round) {
    if (!costs.plan(answer, costs.all())) break;
    answer = answer_of(costs.instance(weights, costs.all()));
  }
  return weights.sequential > 0 ? costs.configs(answer) : costs.spread(answer);
}

}  // namespace

std::vector<ScoredConfigs> additive_starts(const ConfigSpace& space, const MoveUnits& units,
                                           Evaluator& evaluator,
                                           const std::vector<std::vector<std::size_t>>& starts,
                                           const std::vector<std::size_t>& first,
                                           const std::function<bool()>& go_on) {
  const auto bind = [&](const std::vector<std::size_t>& configs) {
    return evaluator.contents().bind(space.strategy(configs));
  };
  const auto devices = static_cast<std::int64_t>(evaluator.topology().num_devices());
  const std::int64_t plans = kMostPlans * 64 / std::max<std::int64_t>(64, devices);
  const BoundStrategy from = bind(first);
  std::vector<ScoredConfigs> found{{first, evaluator.evaluate(from)}};
  const auto key = [](const ScoredConfigs& s) {
    return std::tuple(s.evaluation.overflow, s.evaluation.time);
  };
  std::vector<std::vector<std::size_t>> seen{first};
  const auto minimise_sums = [&] {
    AdditiveCosts costs(space, units, evaluator, starts);
    EditableTaskGraph loads(evaluator.contents());
    loads.build(from);
    loads.carry_out();
    loads.keep();
    for (const double unit_share : kUnitShares) {
      const auto least = std::ranges::min_element(found, {}, key)->evaluation.time;
      for (const Shares& share : kShares) {
        AdditiveWeights weights{share.transfers, share.synchronisation};
        if (unit_share > 0) {
          weights.sequential = 0;
          weights.longest = Seconds(unit_share * to_seconds(least).value);
        }
        if (!go_on()) break;
        std::vector<std::size_t> configs = least_sum(costs, weights, plans, go_on);
        if (std::ranges::find(seen, configs) != seen.end()) continue;
        seen.push_back(configs);
        const ScoredConfigs& best = *std::ranges::min_element(found, {}, key);
        const auto limit = best.evaluation.feasible()
                               ? static_cast<Nanoseconds>(kNear * static_cast<double>(best.evaluation.time))
                               : std::numeric_limits<Nanoseconds>::max();
        const BoundStrategy strategy = bind(configs);
        std::vector<BoundChange> changes;
        for (std::size_t i = 0; i < strategy.size(); ++i) {
          if (strategy[i] != from[i]) changes.push_back({OperatorId(i), strategy[i]});
        }
        const bool hopeless = !loads.change(changes, limit);
        loads.undo();
        if (hopeless) continue;
        const Evaluation evaluation = evaluator.evaluate(strategy);
        found.push_back({std::move(configs), evaluation});
      }
    }
  };
  try {
    minimise_sums();
  } catch (const OutOfTime&) {  // what was found until then will do
  }
  std::ranges::stable_sort(found, {}, key);
  const ScoredConfigs& best = found.front();
  std::erase_if(
      found, [&, overflow = best.evaluation.overflow, time = best.evaluation.time](const ScoredConfigs& s) {
        return s.evaluation.overflow > overflow ||
               static_cast<double>(s.evaluation.time) > kNear * static_cast<double>(time);
      });
  return found;
}

}  // namespace pipesim
