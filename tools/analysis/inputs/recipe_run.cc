#include "tools/analysis/inputs/recipe_run.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "search/recipes/recipe_of_plan.h"
#include "sim/base/errors.h"
#include "tools/analysis/inputs/model_and_topology.h"

namespace pipesim {
namespace {

// Samples of an iteration on each copy of the model.
std::int64_t divided(std::int64_t samples, const char* what, const Recipe& recipe) {
  if (samples % recipe.data == 0 && samples > 0) return samples / recipe.data;
  throw InputError(
      fmt::format("recipe \"{}\": dp{} does not divide {} {}", recipe.str(), recipe.data, what, samples));
}

// With all samples of its default batch a model may have more elements than are allowed, with those that are
// asked for it need not. The recipe is completed by its other sizes.
OperatorGraph graph_for(const std::string& model, const BatchRequest& asked, bool& all_samples) {
  try {
    return open_model(model);
  } catch (const InputError& error) {
    if (!asked.batch || model_file(model)) throw;
    all_samples = false;
    try {
      return open_model(with_batch(model, 1));
    } catch (const InputError&) {
      throw InputError(error);  // the samples were not what was wrong
    }
  }
}

}  // namespace

ModelRun run_of_recipe(const std::string& model, std::int64_t devices, const BatchRequest& asked,
                       Recipe& recipe) {
  const bool open = recipe.microbatch == 0;
  bool all_samples = true;
  const OperatorGraph graph = graph_for(model, asked, all_samples);
  const RecipeModel recipe_model(graph);
  recipe = completed(recipe, devices, &recipe_model);
  const std::int64_t own = graph.batch();
  if (asked.batch && asked.microbatch && asked.microbatches)
    throw UsageError("--batch, --microbatch and --microbatches: two of them tell the third");
  if (asked.microbatch && !open)
    throw UsageError(fmt::format("--microbatch {} and mbs{} of the recipe exclude each other",
                                 *asked.microbatch, recipe.microbatch));
  if (open && asked.microbatch) {
    recipe.microbatch = divided(*asked.microbatch, "--microbatch", recipe);
  } else if (open && asked.microbatches) {
    const std::int64_t samples = asked.batch ? *asked.batch / *asked.microbatches : own;
    if (asked.batch && *asked.batch % *asked.microbatches != 0)
      throw UsageError(
          fmt::format("--batch {} is no multiple of --microbatches {}", *asked.batch, *asked.microbatches));
    recipe.microbatch = divided(samples, "the samples of a microbatch,", recipe);
  }
  const std::int64_t samples = recipe.data * recipe.microbatch;
  std::int64_t microbatches = asked.microbatches.value_or(0);
  if (microbatches == 0) {
    const std::int64_t batch = asked.batch.value_or(own);
    if (batch % samples != 0)
      throw InputError(fmt::format(
          "recipe \"{}\": a microbatch has dp{} x mbs{} = {} samples, of which {} {} is no multiple{}",
          recipe.str(), recipe.data, recipe.microbatch, samples,
          asked.batch ? "--batch" : "the model's batch", batch, asked.batch ? "" : "; --batch sets it"));
    microbatches = batch / samples;
  } else if (asked.batch && *asked.batch != microbatches * samples) {
    throw InputError(fmt::format(
        "recipe \"{}\": {} microbatches of dp{} x mbs{} samples are {}, not --batch {}", recipe.str(),
        microbatches, recipe.data, recipe.microbatch, microbatches * samples, *asked.batch));
  }
  if (microbatches > kMostMicrobatches)
    throw UsageError(fmt::format("{} microbatches, allowed: up to {}", microbatches, kMostMicrobatches));
  // A recipe of which ulysses does not divide cp is refused when it is expanded.
  const std::string balanced =
      with_zigzag(model, graph, std::max<std::int64_t>(1, recipe.context / recipe.ulysses));
  const bool as_it_is = all_samples && samples == own;
  return {as_it_is ? balanced : with_batch(balanced, samples), static_cast<std::int32_t>(microbatches)};
}

bool dispatches_locally(const std::string& model, const Runtime& runtime) {
  return runtime.has_host() && model.find("token_groups=") == std::string::npos;
}

void apply_recipe(const Recipe& recipe, const RecipeModel& model, const Topology& topology, Plan& plan) {
  RecipeStrategy made = expand_recipe(recipe, model, topology);
  made.apply_to(plan.options);
  plan.strategy = std::move(made.strategy);
  plan.found_by = "recipe";
  if (const auto reason = illegal(model.graph(), plan.strategy, plan.options, topology))
    throw InputError(fmt::format("recipe \"{}\": {}", recipe.str(), *reason));
}

Runtime runtime_for_recipes(const Topology& topology, std::string_view framework) {
  const Runtime runtime = parse_runtime(framework.empty() ? "megatron" : framework);
  for (std::size_t d = 0; d < topology.num_devices(); ++d) {
    if (!topology.kind(DeviceId(d)).fused_attention)
      return framework.empty() ? Runtime() : with_step_memory_of(runtime, Runtime());
  }
  return runtime;
}

Runtime with_policies(Runtime runtime, const Recipe& recipe) {
  const auto change = [&](const char* key, bool always) {
    const bool changed = runtime.name.find(':') != std::string::npos;
    runtime = parse_runtime(
        fmt::format("{}{}{}={}", runtime.name, changed ? ',' : ':', key, always ? "always" : "never"));
  };
  if (recipe.pipeline == 1 && recipe.reduction) {
    const bool overlapped = *recipe.reduction == GradientReduction::Overlapped;
    if (runtime.overlap != (overlapped ? ReductionOverlap::Always : ReductionOverlap::Never))
      change("overlap", overlapped);
  }
  if (recipe.tensor_overlap && *recipe.tensor_overlap != runtime.tensor_overlap)
    change("tensor-overlap", *recipe.tensor_overlap);
  return runtime;
}

Runtime with_overlap_of(Runtime runtime, const RecipeFilter& filter) {
  Recipe recipe;
  if (filter.rules().tensor_overlap) recipe.tensor_overlap = true;
  recipe.reduction = filter.rules().reduction;
  return with_policies(std::move(runtime), recipe);
}

Recipe with_policies_of(const Runtime& runtime, Recipe recipe) {
  if (runtime.tensor_overlap && recipe.tensor > 1) recipe.tensor_overlap = true;
  const Runtime usual = parse_runtime(runtime.name.substr(0, runtime.name.find(':')));
  if (recipe.pipeline == 1 && recipe.reduces_once() && runtime.overlap != usual.overlap &&
      runtime.overlap != ReductionOverlap::UnlessSharded)
    recipe.reduction = runtime.overlap == ReductionOverlap::Always ? GradientReduction::Overlapped
                                                                   : GradientReduction::AfterSteps;
  return recipe;
}

std::string recognised_recipe(const Strategy& strategy, const PlanOptions& options, const RecipeModel& model,
                              const Topology& topology, const Runtime& runtime) {
  RecognisedRecipe found = recipe_of(strategy, options, model, topology);
  found.recipe = with_policies_of(runtime, std::move(found.recipe));
  return found.str(model.graph());
}

}  // namespace pipesim
