#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "search/planners/all_pipelines.h"
#include "search/planners/layer_clusters.h"
#include "sim/base/errors.h"
#include "tools/planners/planner.h"
#include "tools/status_line.h"

namespace pipesim {
namespace {

constexpr std::int64_t kMostTriedLayers = 64, kFewLayers = 8;  // what --layers may say; without it
constexpr std::size_t kMostDevices = 64;
constexpr double kMostPipelines = 1'000'000;  // some minutes, if all had to be simulated

std::int32_t layers_asked(const Arguments& a) {
  return static_cast<std::int32_t>(a.given("layers") ? a.integer("layers", 1, kMostTriedLayers) : kFewLayers);
}

[[noreturn]] void refuse_number(double pipelines, std::size_t layers, std::size_t devices) {
  throw InputError(
      fmt::format("exhaustive: at least {:.3g} pipelines of {} layers on {} devices, allowed: up to {:.0f}; "
                  "ask for fewer with --layers, --stages, --schedule or a smaller topology",
                  pipelines, layers, devices, kMostPipelines));
}

PlannedPipeline propose_all(const PlannerCall& call) {
  const Arguments& a = call.arguments;
  const std::size_t devices = call.topology().num_devices();
  if (devices > kMostDevices)
    throw InputError(
        fmt::format("exhaustive: found {} devices, allowed: up to {} for pipelines", devices, kMostDevices));
  PipelineSpace space{cluster_layers(layers_of(call.graph, call.costs, DeviceId(0)), layers_asked(a)),
                      schedules_to_try(a), 0};
  const std::int32_t layers = *std::ranges::max_element(space.layer_of) + 1;
  if (a.has("stages")) {
    space.stages = static_cast<std::int32_t>(a.integer("stages", 1, kMostTriedLayers));
    if (space.stages > layers)
      throw InputError(fmt::format("exhaustive: {} stages for {} layers, allowed: 1 to {}; see --layers",
                                   space.stages, layers, layers));
  }
  const Placements placements(call.topology());
  const double number = number_of_pipelines(space, placements, call.run.microbatches, kMostPipelines);
  if (number > kMostPipelines) refuse_number(number, static_cast<std::size_t>(layers), devices);
  StatusLine status(call.err);
  PipelineOptimum best = best_pipeline(
      call.graph, call.costs, plan_options_of(a, call.run), space, placements, LeaveOut::ByBounds,
      [&](const PipelineOptimum& so_far) {
        if (status.due())
          status.show(fmt::format("{} of up to {} pipelines", so_far.simulated, so_far.pipelines));
      });
  if (best.simulated == 0)
    throw InputError(
        fmt::format("exhaustive: no pipeline of {} layers on {} devices has such stages and such a schedule",
                    layers, devices));
  if (!best.plan)
    throw InputError(fmt::format("exhaustive: none of {} pipelines of {} layers fits into memory",
                                 best.pipelines, layers));
  const std::vector<StageMesh> meshes = best.plan->meshes;
  PlannedPipeline planned(call, *std::move(best.plan));
  for (std::int32_t s = 0; s < planned.options.pipeline->num_stages(); ++s)
    planned.devices.push_back(
        static_cast<std::int64_t>(meshes[static_cast<std::size_t>(s) % meshes.size()].devices.size()));
  planned.note =
      fmt::format("{} of {} pipelines of {} layers, of which {} had to be simulated",
                  best.estimated == 0 ? "proven best" : "best", best.pipelines, layers, best.simulated);
  if (best.estimated > 0)
    planned.note += fmt::format("; not proven, since the times of {} are estimates", best.estimated);
  return planned;
}

const Planner& exhaustive_planner() {
  static const Planner planner{"exhaustive", "", {"stages", "schedule", "layers"}, {}, propose_all};
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
