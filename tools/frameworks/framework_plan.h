#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "costmodel/cost_model.h"
#include "search/recipes/recipe_model.h"
#include "taskgraph/plan/plan_json.h"
#include "tools/frameworks/decoder_sizes.h"
#include "tools/frameworks/hosts.h"

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
  Hosts hosts;
  FrameworkVersion version = {};  ///< that the export is for; without a name, the framework's newest
  std::string base = {};          ///< torchtitan: MODULE:FUNCTION, a configuration of the model; "": its own
  [[nodiscard]] std::int64_t microbatches() const { return samples / (recipe.data * recipe.microbatch); }
  [[nodiscard]] std::int64_t copies() const { return recipe.data * recipe.context; }  ///< of a weight
};

/// What a framework can't express, why, and how the nearest plan that it can differs.
struct Refusal {
  std::string part;                           ///< "schedule=zb-h1", "operator layer3.ffn1"
  std::string reason;                         ///< "its pipelines run 1f1b, or interleaved with vpp"
  std::function<void(FrameworkPlan&)> amend;  ///< none: no other recipe would help
};
using Refusals = std::vector<Refusal>;

/// A file of an export.
struct ExportedFile {
  std::string name, content;
};

/// A framework that plans are exported to.
struct Framework {
  std::string_view name;   ///< "megatron"
  std::string_view title;  ///< "Megatron-LM"
  Refusals (*refusals)(const FrameworkPlan& plan);
  std::vector<ExportedFile> (*files)(const FrameworkPlan& plan);  ///< of a plan without refusals
  const std::vector<FrameworkVersion>& (*versions)();             ///< the newest last
};
const std::vector<Framework>& frameworks();

/// The plan as recipes and sizes tell it, with what differs from every recipe as refusals: operators that are
/// split otherwise, stages of other layers, replicas that take turns. InputError when the model is no decoder
/// of the zoo, or the hosts can't be launched.
struct ReadPlan {
  FrameworkPlan plan;
  Refusals refusals;
};
ReadPlan read_framework_plan(const Plan& plan, const RecipeModel& model, const Topology& topology);

/// The nearest plan that the framework can express: refusals amended, one after the other, until there is
/// none and the recipe is legal for the model. Nothing when there is no such plan.
std::optional<FrameworkPlan> nearest_expressible(const Framework& framework, const FrameworkPlan& plan,
                                                 const Refusals& refusals, const RecipeModel& model);

/// The axes of a recipe's order along which there are several devices, the closest first, "tp-dp". Two orders
/// with the same text place ranks alike.
std::string order_text(const Recipe& recipe);

/// Why no framework gets a model that lacks what its config.json asks for; nothing where it has all.
std::optional<Refusal> partial_model(const FrameworkPlan& plan);

/// An amendment of the recipe.
std::function<void(FrameworkPlan&)> amend_recipe(std::function<void(Recipe&)> change);

}  // namespace pipesim
