#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "search/recipe_planner/space/recipe_filter.h"
#include "search/recipes/expand_recipe.h"
#include "taskgraph/plan/plan_json.h"
#include "tools/analysis/inputs/model_run.h"

namespace pipesim {

/// The samples and microbatches that a command line asks for; nothing where it leaves one open.
struct BatchRequest {
  std::optional<std::int64_t> batch;         ///< samples in an iteration
  std::optional<std::int64_t> microbatch;    ///< samples in a microbatch, over all devices
  std::optional<std::int64_t> microbatches;  ///< in an iteration
};

/// Fills in dp and mbs of a recipe for so many devices, and gives the model the recipe's microbatch: dp · mbs
/// samples. Where cp divides the sequence of attention, positions of a zoo model come in the order in which
/// its parts do equal work. Without mbs it follows from the request, or is 1. Without a batch, an iteration
/// has the samples of the model's text. InputError when they do not come out even, or the recipe does not fit
/// the devices.
ModelRun run_of_recipe(const std::string& model, std::int64_t devices, const BatchRequest& asked,
                       Recipe& recipe);

/// Whether what runs a plan hands out the tokens of each device by themselves (Recipe::shape()): frameworks
/// do, unless the model's text says in how many groups tokens are.
bool dispatches_locally(const std::string& model, const Runtime& runtime);

/// Gives the plan the strategy, pipeline and recompute of a complete recipe, found by "recipe".
void apply_recipe(const Recipe& recipe, const RecipeModel& model, const Topology& topology, Plan& plan);

/// The runtime of plans from recipes unless another is asked for: that of a framework where all devices are
/// GPUs for which frameworks have fused attention (DeviceKind::fused_attention); else pipesim's own, with
/// what the framework holds for gradients and steps. Without a framework: Megatron-LM's, or pipesim's own as
/// it is.
Runtime runtime_for_recipes(const Topology& topology, std::string_view framework = {});

/// The runtime, with what a recipe says of its policies: tp-overlap, and without a pipeline `reduce`.
Runtime with_policies(Runtime runtime, const Recipe& recipe);

/// The runtime for all recipes of the filter, with policies as the filter's overlap says. The runtime of a
/// single recipe is with_policies().
Runtime with_overlap_of(Runtime runtime, const RecipeFilter& filter);

/// The recipe of a plan, with what the plan's runtime does otherwise than a runtime of its name.
Recipe with_policies_of(const Runtime& runtime, Recipe recipe);

/// What practitioners call a plan: its recipe, or the nearest one (RecognisedRecipe::str()).
std::string recognised_recipe(const Strategy& strategy, const PlanOptions& options, const RecipeModel& model,
                              const Topology& topology, const Runtime& runtime);

}  // namespace pipesim
