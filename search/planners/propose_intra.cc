#include <fmt/format.h>

#include <algorithm>
#include <string>

#include "search/additive/intra_costs.h"
#include "search/planners/planner.h"
#include "sim/base/errors.h"
#include "sim/base/suggest.h"

namespace pipesim {
namespace {

// Sums do not know what passes need while they run; a limit that is lower by what was lacking does.
constexpr int kMostLimits = 10;

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
    const IntraSolution solution =
        costs.solve_planned(costs.all(), 1, limit, request.settings.threads, [&](std::int64_t planned) {
          request.status(fmt::format("{} transfers and synchronisations planned", planned));
        });
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
