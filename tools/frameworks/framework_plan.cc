#include "tools/frameworks/framework_plan.h"

#include <fmt/format.h>

#include <utility>

#include "search/recipes/recipe_of_plan.h"
#include "sim/base/suggest.h"
#include "tools/frameworks/deepspeed.h"
#include "tools/frameworks/megatron.h"
#include "tools/frameworks/torchtitan.h"

namespace pipesim {
namespace {

// How often amendments may lead to other refusals.
constexpr int kMostAmendments = 8;

std::string differing_reason(const RecognisedRecipe& found, const OperatorGraph& graph) {
  const std::size_t others = found.differing.size() - 1;
  return fmt::format(
      "is split or placed otherwise than {} says{}, and frameworks split all layers alike",
      found.recipe.str(),
      others == 0 ? "" : fmt::format(", as are {} of {} operators more", others, graph.operators().size()));
}

}  // namespace

std::function<void(FrameworkPlan&)> amend_recipe(std::function<void(Recipe&)> change) {
  return [change = std::move(change)](FrameworkPlan& plan) { change(plan.recipe); };
}

std::optional<Refusal> partial_model(const FrameworkPlan& plan) {
  if (!plan.sizes.partial) return std::nullopt;
  return Refusal{
      "partial=yes",
      "the plan's model goes without what its config.json asks for, which \"pipesim import model\" "
      "lists; partial=no exports it all the same",
      {}};
}

const std::vector<Framework>& frameworks() {
  static const std::vector<Framework> all{
      {"megatron", "Megatron-LM", megatron_refusals, megatron_files, megatron_versions},
      {"torchtitan", "torchtitan", torchtitan_refusals, torchtitan_files, torchtitan_versions},
      {"deepspeed", "DeepSpeed", deepspeed_refusals, deepspeed_files, deepspeed_versions}};
  return all;
}

ReadPlan read_framework_plan(const Plan& plan, const RecipeModel& model, const Topology& topology) {
  const RecognisedRecipe found = recipe_of(plan.strategy, plan.options, model, topology);
  ReadPlan read;
  FrameworkPlan& p = read.plan;
  p.recipe = found.recipe;
  if (plan.runtime.tensor_overlap && p.recipe.tensor > 1) p.recipe.tensor_overlap = true;
  p.model = plan.model;
  p.sizes = decoder_sizes(plan.model);
  p.layers = divide_layers(p.recipe, p.sizes.layers).layers;
  p.samples = samples_per_iteration(model.graph(), plan.options);
  p.optimizer = plan.options.optimizer;
  p.gradient_type = plan.options.gradient_type;
  p.hosts = hosts_of(topology);
  const auto as_the_recipe = [](FrameworkPlan&) {};
  if (!found.differing.empty())
    read.refusals.push_back({fmt::format("operator \"{}\"", model.graph().op(found.differing.front()).name),
                             differing_reason(found, model.graph()), as_the_recipe});
  for (const std::string& difference : found.differences)
    read.refusals.push_back({difference, "no recipe says that, and frameworks are told one", as_the_recipe});
  return read;
}

std::string order_text(const Recipe& recipe) {
  std::string text;
  for (const MeshAxis axis : recipe.order) {
    std::int64_t degree = 1;
    if (axis == MeshAxis::Tensor) degree = std::max(recipe.tensor, recipe.expert_tensor_degree());
    if (axis == MeshAxis::Context) degree = recipe.context;
    if (axis == MeshAxis::Expert) degree = recipe.expert;
    if (axis == MeshAxis::Data)
      degree = std::max(recipe.data, recipe.divides_experts() ? recipe.expert_data() : 1);
    if (axis == MeshAxis::Pipeline) degree = recipe.pipeline;
    if (degree > 1) text += fmt::format("{}{}", text.empty() ? "" : "-", name_of(axis));
  }
  return text;
}

std::optional<FrameworkPlan> nearest_expressible(const Framework& framework, const FrameworkPlan& plan,
                                                 const Refusals& refusals, const RecipeModel& model) {
  FrameworkPlan nearest = plan;
  Refusals open = refusals;
  for (int i = 0; i < kMostAmendments; ++i) {
    if (open.empty() && !model.illegal(nearest.recipe) &&
        nearest.samples % (nearest.recipe.data * nearest.recipe.microbatch) == 0) {
      nearest.layers = divide_layers(nearest.recipe, nearest.sizes.layers).layers;
      return nearest;
    }
    for (const Refusal& refusal : open) {
      if (!refusal.amend) return std::nullopt;
      refusal.amend(nearest);
    }
    if (model.illegal(nearest.recipe)) {
      const auto legal = nearest_legal(nearest.recipe, model, plan.recipe.devices());
      if (!legal) return std::nullopt;
      nearest.recipe = *legal;
    }
    if (nearest.samples % (nearest.recipe.data * nearest.recipe.microbatch) != 0)
      nearest.recipe.microbatch = 1;
    nearest.layers = divide_layers(nearest.recipe, nearest.sizes.layers).layers;
    open = framework.refusals(nearest);
  }
  return std::nullopt;
}

}  // namespace pipesim
