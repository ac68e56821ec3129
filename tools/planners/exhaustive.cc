#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <string>

#include "search/pipelines/all_pipelines.h"
#include "search/pipelines/layer_clusters.h"
#include "sim/base/errors.h"
#include "sim/base/suggest.h"
#include "tools/planners/planner.h"
#include "tools/searching/search_watch.h"

namespace pipesim {
namespace {

constexpr std::int64_t kMostTriedLayers = 64, kFewLayers = 8;  // what --layers may say; without it
constexpr std::size_t kMostDevices = 64;
constexpr double kMostPipelines = 1'000'000;  // some minutes, if all had to be simulated

std::int32_t layers_asked(const Arguments& a) {
  return static_cast<std::int32_t>(a.given("layers") ? a.integer("layers", 1, kMostTriedLayers) : kFewLayers);
}

[[noreturn]] void refuse_number(double pipelines, std::size_t layers, std::size_t devices) {
  throw InputError(fmt::format(
      "exhaustive: at least {} pipelines of {} layers on {} devices, allowed: up to {:.0f}; "
      "ask for fewer with --layers, --stages, --schedule or a smaller topology",
      significant(std::stod(fmt::format("{:.3g}", pipelines)), 3), layers, devices, kMostPipelines));
}

// Without options there is no limit: whoever asks for a proof waits for it.
SearchBudget budget_of(const Arguments& a) {
  return a.given("seconds") || a.has("proposals") ? search_budget_of(a) : SearchBudget{};
}

// Tries all, until the budget or the user ends it.
class WatchedTrials {
 public:
  WatchedTrials(const PlannerCall& call, double pipelines)
      : call_(call),
        budget_(budget_of(call.arguments)),
        watch_(call.err, line_budget(pipelines), {}, log()) {}

  PipelineOptimum best(const PipelineSpace& space, const Placements& placements) {
    const ProgressCallback watching = watch_.callback();
    const auto go_on = [&](const PipelineOptimum& so_far) {
      const SearchProgress now = progress(so_far);
      const bool in_budget = (budget_.seconds == 0 || now.seconds < budget_.seconds) &&
                             (budget_.proposals == 0 || now.proposals < budget_.proposals);
      return watching(now) && in_budget;
    };
    PipelineOptimum best =
        best_pipeline(call_.graph, call_.costs, plan_options_of(call_.arguments, call_.run), space,
                      placements, LeaveOut::ByBounds, go_on);
    SearchOutcome told;
    told.seconds = seconds();
    told.proposals = best.simulated;
    watch_.finish(told);
    return best;
  }
  [[nodiscard]] bool interrupted() const { return watch_.interrupted(); }

 private:
  using Clock = std::chrono::steady_clock;
  [[nodiscard]] SearchBudget line_budget(double pipelines) const {
    const auto most = static_cast<std::int64_t>(pipelines);
    return {budget_.seconds, budget_.proposals > 0 ? std::min(budget_.proposals, most) : most};
  }
  [[nodiscard]] std::string log() const {
    return call_.arguments.has("search-log") ? call_.arguments.text("search-log") : "";
  }
  [[nodiscard]] double seconds() const {
    return std::chrono::duration<double>(Clock::now() - began_).count();
  }
  [[nodiscard]] SearchProgress progress(const PipelineOptimum& so_far) const {
    SearchProgress now;
    now.proposals = so_far.simulated;
    now.seconds = seconds();
    if (so_far.plan) now.best = so_far.evaluation.time;
    return now;
  }

  const PlannerCall& call_;
  SearchBudget budget_;
  Clock::time_point began_ = Clock::now();
  SearchWatch watch_;
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
    throw InputError(fmt::format("exhaustive: no pipeline of {} on {} can be made so; {}",
                                 counted(layers, "layer"), devices_text(topology), found.refusal));
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

PlannedPipeline propose_all(const PlannerCall& call) {
  const Arguments& a = call.arguments;
  const std::size_t devices = call.topology().num_devices();
  if (devices > kMostDevices)
    throw InputError(
        fmt::format("exhaustive: found {} devices, allowed: up to {} for pipelines", devices, kMostDevices));
  const LayerGraph operators = layers_of(call.graph, call.costs, DeviceId(0));
  const auto together = inseparable_layers(call.graph, operators, a.text("schedule"));
  PipelineSpace space{cluster_layers(operators, layers_asked(a), together), schedules_to_try(a), 0};
  const std::int32_t layers = *std::ranges::max_element(space.layer_of) + 1;
  if (a.has("stages")) {
    space.stages = static_cast<std::int32_t>(a.integer("stages", 1, kMostTriedLayers));
    const bool by_weights = !together.empty() && layers < layers_asked(a);
    if (space.stages > layers)
      throw InputError(fmt::format(
          "exhaustive: {} for {}, allowed: 1 to {}; {}", counted(space.stages, "stage"),
          counted(layers, "layer"), layers,
          by_weights
              ? fmt::format("schedule \"{}\" allows no cut between uses of a weight", a.text("schedule"))
              : "see --layers"));
  }
  const Placements placements(call.topology());
  const double number = number_of_pipelines(space, placements, call.run.microbatches, kMostPipelines);
  if (number > kMostPipelines) refuse_number(number, static_cast<std::size_t>(layers), devices);
  WatchedTrials trials(call, number);
  PipelineOptimum best = trials.best(space, placements);
  if (!best.plan) refuse_outcome(best, layers, call.topology(), trials.interrupted());
  const std::vector<StageMesh> meshes = best.plan->meshes;
  PlannedPipeline planned(call, *std::move(best.plan));
  for (std::int32_t s = 0; s < planned.options.pipeline->num_stages(); ++s)
    planned.devices.push_back(
        static_cast<std::int64_t>(meshes[static_cast<std::size_t>(s) % meshes.size()].devices.size()));
  planned.note = note_of(best, layers, trials.interrupted());
  planned.proven = best.proven();
  return planned;
}

const Planner& exhaustive_planner() {
  static const Planner planner{"exhaustive",
                               "",
                               {"stages", "schedule", "layers", "seconds", "proposals", "search-log"},
                               {},
                               propose_all};
  return planner;
}

}  // namespace

const Planner* planner_of(const Arguments& arguments) {
  const std::string& name = arguments.text("algorithm");
  if (name != exhaustive_planner().name) return planner_named(name);
  constexpr std::array kOfPipelines{"stages", "schedule", "layers", "microbatches", "microbatch"};
  const bool of_pipelines =
      std::ranges::any_of(kOfPipelines, [&](const char* option) { return arguments.given(option); });
  return of_pipelines ? &exhaustive_planner() : nullptr;
}

}  // namespace pipesim
