#include <fmt/format.h>

#include <algorithm>
#include <string>

#include "search/additive/intra_costs.h"
#include "search/planners/planner.h"
#include "sim/base/errors.h"
#include "sim/base/suggest.h"
#include "taskgraph/memory/peak_memory.h"

namespace pipesim {
namespace {

// What is not solved by then is told with its gap.
constexpr std::uint64_t kRoundsToProve = 60;
// Sums do not know what passes need while they run; a limit that is lower by what was lacking does.
constexpr int kMostLimits = 10;

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

PlannerAnswer propose_intra(const PlanRequest& request) {
  request.status("pricing splits");
  IntraCosts costs(request.graph(), request.costs, request.options(), request.settings.mesh);
  PlannedSolving how;
  how.settings.threads = static_cast<std::size_t>(std::max(1, request.settings.threads));
  how.settings.rounds = kRoundsToProve;
  Bytes limit = costs.usable();
  for (int tried = 0; tried < kMostLimits && costs.least_held() <= limit; ++tried) {
    const IntraSolution solution = costs.solve_planned(costs.all(), 1, limit, how, [&](std::int64_t planned) {
      request.status(fmt::format("{} transfers and synchronisations planned", planned));
    });
    if (!solution.found) break;
    Strategy strategy = costs.strategy(solution.answer);
    const Evaluated evaluated = costs.evaluator().evaluate(strategy, {.peaks = true});
    if (!evaluated.cost->feasible()) {
      // Another choice may need fewer buffers, so what is left is at most halved.
      const Bytes shortage = largest_shortage(evaluated.peaks, request.topology());
      limit = std::max(limit - shortage, Bytes((limit.value + costs.least_held().value) / 2));
      continue;
    }
    request.status("");
    PlannerAnswer answer{PlannedModel(request.graph(), request.options(), std::move(strategy))};
    const double least = IntraCosts::seconds_of(solution.cost) * request.microbatches();
    answer.objective = {"s", least, pretty(Seconds(least)) + " an iteration"};
    answer.note = certificate_of(solution, request.microbatches(), limit < costs.usable());
    answer.scored = evaluated.cost;
    return answer;
  }
  request.status("");
  throw NoPlanFound(fmt::format(
      "intra: no choice of splits was found to fit into memory: weights, their state and what backward needs "
      "take {} or more of the {} that a device has for plans, and buffers come on top; try --state-sharding, "
      "--recompute, more microbatches, {}or a pipeline",
      pretty(costs.least_held()), pretty(costs.usable()),
      request.settings.mesh.empty() ? "" : "another --mesh, "));
}

}  // namespace pipesim
