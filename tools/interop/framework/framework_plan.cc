#include "tools/interop/framework/framework_plan.h"

#include <fmt/format.h>

#include <utility>

#include "search/recipe_planner/measuring/mesh_traffic.h"
#include "search/recipes/recipe_of_plan.h"
#include "sim/base/suggest.h"

namespace pipesim {
namespace {

std::string differing_reason(const RecognisedRecipe& found, const OperatorGraph& graph) {
  const std::size_t others = found.differing.size() - 1;
  return fmt::format(
      "is split or placed otherwise than {} says{}, and frameworks split all layers alike",
      found.recipe.str(),
      others == 0 ? "" : fmt::format(", as are {} of {} operators more", others, graph.operators().size()));
}

}  // namespace

ReadPlan read_framework_plan(const Plan& plan, const RecipeModel& model, const Topology& topology) {
  const RecognisedRecipe found = recipe_of(plan.strategy, plan.options, model, topology);
  ReadPlan read;
  FrameworkPlan& p = read.plan;
  p.recipe = found.recipe;
  if (plan.runtime.tensor_overlap && p.recipe.tensor > 1) p.recipe.tensor_overlap = true;
  // Without a pipeline the runtime decides, and frameworks are told.
  if (p.recipe.pipeline == 1 && p.recipe.reduces_once()) {
    p.recipe.reduction.reset();
    if (reduces_beside_backward(p.recipe, plan.runtime)) p.recipe.reduction = GradientReduction::Overlapped;
  }
  p.model = plan.model;
  p.sizes = decoder_sizes(plan.model);
  p.layers = divide_layers(p.recipe, p.sizes.layers).layers;
  p.samples = samples_per_iteration(model.graph(), plan.options);
  p.optimizer = plan.options.optimizer;
  p.gradient_type = plan.options.gradient_type;
  p.optimizer_kernel = plan.runtime.optimizer_kernel;
  p.expandable_segments = plan.runtime.expandable_segments;
  p.dispatcher = plan.runtime.dispatcher;
  p.dispatcher_multiprocessors = plan.runtime.dispatcher_multiprocessors;
  p.graphs = plan.runtime.graphs;
  p.hosts = hosts_of(topology);
  if (!found.differing.empty())
    read.beyond_recipes.push_back(
        {fmt::format("operator \"{}\"", model.graph().op(found.differing.front()).name),
         differing_reason(found, model.graph())});
  for (const std::string& difference : found.differences)
    read.beyond_recipes.push_back({difference, "no recipe says that, and frameworks are told one"});
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

}  // namespace pipesim
