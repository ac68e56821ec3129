#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "costmodel/cost_model.h"
#include "search/recipes/recipe_model.h"
#include "taskgraph/plan/plan_json.h"
#include "tools/interop/framework/decoder_sizes.h"
#include "tools/interop/framework/hosts.h"

namespace pipesim {

/// A version of a framework that exports are written for.
struct FrameworkVersion {
  std::string_view name;    ///< "0.15", as in --to megatron:0.15
  std::string_view title;   ///< "Megatron-LM core 0.15"
  std::string_view source;  ///< the tag or commit whose settings are written
  int number = 0;           ///< greater for later versions of the same framework
};

/// A plan in the terms of frameworks: a recipe, the sizes of a decoder, and what an iteration is.
struct FrameworkPlan {
  Recipe recipe;      ///< complete
  std::string model;  ///< text of open_model()
  DecoderSizes sizes;
  std::vector<std::int64_t> layers;  ///< by stage; one stage without a pipeline
  std::int64_t samples = 0;          ///< of an iteration
  Optimizer optimizer = Optimizer::Adam;
  DataType gradient_type = DataType::Float32;
  OptimizerKernel optimizer_kernel = OptimizerKernel::Fused;
  bool expandable_segments = false;  ///< of PyTorch's allocator
  Dispatcher dispatcher = Dispatcher::AsModel;
  std::int32_t dispatcher_multiprocessors = 0;  ///< see Runtime
  CudaGraphs graphs;
  Hosts hosts;
  FrameworkVersion version = {};  ///< that the export is for; without a name, the framework's newest
  std::string base = {};          ///< torchtitan: MODULE:FUNCTION, a configuration of the model; "": its own
  [[nodiscard]] std::int64_t microbatches() const { return samples / (recipe.data * recipe.microbatch); }
  [[nodiscard]] std::int64_t copies() const { return recipe.data * recipe.context; }  ///< of a weight
};

/// What no recipe tells of a plan: an operator that is split otherwise, stages of other layers, replicas that
/// take turns.
struct BeyondRecipes {
  std::string part, reason;  ///< "operator layer3.ffn1", why that is none of a recipe
};

/// The plan as recipes and sizes tell it. InputError when the model is no decoder of the zoo, or the hosts
/// can't be launched.
struct ReadPlan {
  FrameworkPlan plan;
  std::vector<BeyondRecipes> beyond_recipes;
};
ReadPlan read_framework_plan(const Plan& plan, const RecipeModel& model, const Topology& topology);

/// The axes of a recipe's order along which there are several devices, the closest first, "tp-dp". Two orders
/// with the same text place ranks alike.
std::string order_text(const Recipe& recipe);

}  // namespace pipesim
