#include <fmt/format.h>

#include <algorithm>
#include <string>

#include "search/additive/intra_costs.h"
#include "search/intra/solve.h"
#include "search/planners/planner.h"
#include "sim/base/deadline.h"
#include "sim/base/errors.h"
#include "sim/base/suggest.h"

namespace pipesim {
namespace {

// Of bounds and searches for answers in turn: while costs are still bounds, a good answer will do. What is
// not solved in the end is told with its gap.
constexpr std::uint64_t kRoundsToPlan = 2, kMostRounds = 60;
// Answers that are planned one after the other. Where memory leaves many that are about as good, all choices
// are planned after so many.
constexpr int kMostAnswersPlanned = 40;
// Sums do not know what passes need while they run; a limit that is lower by what was lacking does.
constexpr int kMostLimits = 10;

// Of the planned costs: what an answer moves is planned, and the sum solved again, until all that the least
// one moves is planned. Costs that are not planned are lower bounds.
IntraSolution solve_planned(const PlanRequest& request, IntraCosts& costs, Bytes limit) {
  IntraSettings settings;
  settings.threads = static_cast<std::size_t>(std::max(1, request.settings.threads));
  settings.rounds = kRoundsToPlan;
  for (int plannings = 0;; ++plannings) {
    stop_if_late();
    request.status(fmt::format("{} transfers and synchronisations planned", costs.planned()));
    if (plannings == kMostAnswersPlanned) costs.plan_all();
    IntraSolution solution = solve(costs.instance(limit), settings);
    const bool whole = settings.rounds == kMostRounds || solution.proven;
    const bool planned = !solution.found || !costs.plan(solution.answer);
    if (whole && planned) return solution;
    settings.rounds = planned ? kMostRounds : kRoundsToPlan;
  }
}

// Of the device that lacks most.
Bytes most_lacking(const std::vector<DeviceMemory>& peaks, const Topology& topology) {
  Bytes most;
  for (std::size_t d = 0; d < peaks.size(); ++d)
    most = std::max(most, peaks[d].peak - topology.usable_memory(DeviceId(d), peaks[d].communicators));
  return most;
}

std::string certificate_of(const IntraSolution& solution, std::int32_t microbatches, bool lowered) {
  constexpr double kPercent = 100;
  const auto text = [&](WideCost cost) {
    return pretty(Seconds(IntraCosts::seconds_of(cost) * microbatches));
  };
  const std::string proof = solution.proven ? "proven to be the least of all choices"
                                            : fmt::format("no choice to less than {} ({:.1f} % less)",
                                                          text(solution.bound), kPercent * solution.gap());
  return fmt::format("compute, transfers and synchronisation add up to {}, {}{}", text(solution.cost), proof,
                     lowered ? " that leave room for what passes need" : "");
}

}  // namespace

PlannedPipeline propose_intra(const PlanRequest& request) {
  request.status("pricing splits");
  IntraCosts costs(request.graph, request.costs, request.options);
  Bytes limit = costs.usable();
  for (int tried = 0; tried < kMostLimits && costs.least_held() <= limit; ++tried) {
    const IntraSolution solution = solve_planned(request, costs, limit);
    if (!solution.found) break;
    Strategy strategy = costs.strategy(solution.answer);
    Evaluator& evaluator = costs.evaluator();
    std::vector<DeviceMemory> peaks;
    const Evaluation evaluation = evaluator.score(evaluator.contents().bind(strategy), peaks);
    if (!evaluation.feasible()) {
      limit -= most_lacking(peaks, request.topology());
      continue;
    }
    request.status("");
    PlannedPipeline planned(request.graph, request.options, std::move(strategy));
    const double least = IntraCosts::seconds_of(solution.cost) * request.microbatches();
    planned.objective = {"planner_objective_s", least, pretty(Seconds(least)) + " an iteration"};
    planned.note = certificate_of(solution, request.microbatches(), limit < costs.usable());
    planned.scored = evaluation;
    return planned;
  }
  request.status("");
  throw InputError(fmt::format(
      "intra: no choice of splits was found to fit into memory: weights, their state and what backward needs "
      "take at least {} on a device, which has {} for plans; try --state-sharding, --recompute, "
      "more microbatches, or a pipeline",
      pretty(costs.least_held()), pretty(costs.usable())));
}

}  // namespace pipesim
