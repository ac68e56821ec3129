#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <string>

#include "search/pipelines/all_pipelines.h"
#include "search/pipelines/layer_clusters.h"
#include "search/planners/planner.h"
#include "sim/base/errors.h"
#include "sim/base/suggest.h"

namespace pipesim {
namespace {

constexpr std::size_t kMostDevices = 64;
constexpr double kMostPipelines = 1'000'000;  // some minutes, if all had to be simulated

[[noreturn]] void refuse_number(double pipelines, std::size_t layers, std::size_t devices) {
  throw InputError(fmt::format(
      "exhaustive: at least {} pipelines of {} layers on {} devices, allowed: up to {:.0f}; "
      "ask for fewer with --layers, --stages, --schedule or a smaller topology",
      significant(std::stod(fmt::format("{:.3g}", pipelines)), 3), layers, devices, kMostPipelines));
}

// Tries all, until the budget or the user ends it.
class WatchedTrials {
 public:
  WatchedTrials(const PlanRequest& request, double pipelines)
      : request_(request), budget_(request.settings.budget) {
    const auto most = static_cast<std::int64_t>(pipelines);
    request.observer->expect(
        {budget_.seconds, budget_.proposals > 0 ? std::min(budget_.proposals, most) : most}, std::nullopt);
  }

  PipelineOptimum best(const PipelineSpace& space, const Placements& placements) {
    const ProgressCallback watching = request_.observer->callback();
    const auto go_on = [&](const PipelineOptimum& so_far) {
      const SearchProgress now = progress(so_far);
      const bool in_budget = (budget_.seconds == 0 || now.seconds < budget_.seconds) &&
                             (budget_.proposals == 0 || now.proposals < budget_.proposals);
      return watching(now) && in_budget;
    };
    PipelineOptimum best = best_pipeline(request_.graph(), request_.costs, request_.options(), space,
                                         placements, LeaveOut::ByBounds, go_on);
    record_.seconds = seconds();
    record_.proposals = best.simulated;
    SearchOutcome told;
    static_cast<SearchRecord&>(told) = record_;
    request_.observer->finish(told);
    return best;
  }
  [[nodiscard]] const SearchRecord& record() const { return record_; }
  [[nodiscard]] bool interrupted() const { return request_.observer->interrupted(); }

 private:
  using Clock = std::chrono::steady_clock;
  [[nodiscard]] double seconds() const {
    return std::chrono::duration<double>(Clock::now() - began_).count();
  }
  [[nodiscard]] SearchProgress progress(const PipelineOptimum& so_far) const {
    SearchProgress now;
    now.proposals = so_far.simulated;
    now.seconds = seconds();
    if (so_far.best) now.best = so_far.best->evaluation.time;
    return now;
  }

  const PlanRequest& request_;
  SearchBudget budget_;
  SearchRecord record_;
  Clock::time_point began_ = Clock::now();
};

[[noreturn]] void refuse_outcome(const PipelineOptimum& found, std::int32_t layers, const Topology& topology,
                                 bool interrupted) {
  if (interrupted) throw Interrupted("exhaustive: no pipeline that fits into memory was found yet");
  if (!found.ended)
    throw InputError(
        fmt::format("exhaustive: the budget ended the search after {} of up to {} pipelines, none of which "
                    "fits into memory; allow more --seconds or --proposals",
                    found.simulated, found.pipelines));
  if (found.simulated == 0)
    throw InputError(
        fmt::format("exhaustive: no pipeline of {} on {} can be made so; {}", counted(layers, "layer"),
                    counted(static_cast<std::int64_t>(topology.num_devices()), "device"), found.refusal));
  throw InputError(fmt::format(
      "exhaustive: none of {} of {} fits into memory; the nearest lacks {}, all devices together",
      counted(found.pipelines, "pipeline"), counted(layers, "layer"), pretty(found.least_overflow)));
}

std::string note_of(const PipelineOptimum& best, std::int32_t layers, bool interrupted) {
  if (!best.ended)
    return fmt::format("not proven: {} ended the search after {} of up to {} of {}",
                       interrupted ? "an interruption" : "the budget", best.simulated,
                       counted(best.pipelines, "pipeline"), counted(layers, "layer"));
  const std::string looked_at =
      fmt::format("best of {} of {}, of which {} had to be simulated", counted(best.pipelines, "pipeline"),
                  counted(layers, "layer"), best.simulated);
  if (best.proven()) return "proven " + looked_at;
  return fmt::format("{}; not proven, since the times of {} are estimates", looked_at, best.estimated);
}

}  // namespace

PlannerAnswer propose_exhaustively(const PlanRequest& request) {
  const PlannerSettings& settings = request.settings;
  if (!settings.tries_pipelines) return propose_all_splits(request);
  const std::size_t devices = request.topology().num_devices();
  if (devices > kMostDevices)
    throw InputError(
        fmt::format("exhaustive: found {} devices, allowed: up to {} for pipelines", devices, kMostDevices));
  const LayerGraph operators = layers_of(request.graph(), request.costs, DeviceId(0));
  const auto together = inseparable_layers(request.graph(), operators, settings.schedule);
  PipelineSpace space{cluster_layers(operators, settings.layers, together), settings.schedules, 0};
  const std::int32_t layers = *std::ranges::max_element(space.layer_of) + 1;
  if (settings.stages > 0) {
    space.stages = settings.stages;
    const bool by_weights = !together.empty() && layers < settings.layers;
    if (space.stages > layers)
      throw InputError(fmt::format(
          "exhaustive: {} for {}, allowed: 1 to {}; {}", counted(space.stages, "stage"),
          counted(layers, "layer"), layers,
          by_weights
              ? fmt::format("schedule \"{}\" allows no cut between uses of a weight", settings.schedule)
              : "see --layers"));
  }
  const Placements placements(request.topology());
  const double number = number_of_pipelines(space, placements, request.microbatches(), kMostPipelines);
  if (number > kMostPipelines) refuse_number(number, static_cast<std::size_t>(layers), devices);
  WatchedTrials trials(request, number);
  PipelineOptimum found = trials.best(space, placements);
  if (!found.best) refuse_outcome(found, layers, request.topology(), trials.interrupted());
  const std::vector<StageMesh> meshes = found.best->plan.meshes;
  PlannerAnswer answer{PlannedModel(request, std::move(found.best->plan))};
  const Pipeline& pipeline = *answer.plan.options.pipeline;
  for (std::int32_t s = 0; s < pipeline.num_stages(); ++s)
    answer.plan.devices.push_back(
        static_cast<std::int64_t>(meshes[mesh_of_stage(pipeline, s, meshes.size())].devices.size()));
  answer.note = note_of(found, layers, trials.interrupted());
  answer.proven = found.proven();
  answer.record = trials.record();
  return answer;
}

}  // namespace pipesim
