#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "search/recipes/recipe_model.h"
#include "taskgraph/plan/plan.h"
#include "topologies/topology.h"

namespace pipesim {

/// The strategy, pipeline and policies that a recipe stands for. The recipe must be
/// completed().
///
/// Every operator's samples are split over dp, its sequence over cp; over tp, in this order of preference,
/// its heads, features or vocabulary are split (Shoeybi et al., arXiv:1909.08053), or with `sp` its sequence
/// (Korthikanti et al., arXiv:2205.05198), or it is copied. Heads of keys and values are copied where they
/// are fewer than tp. Embedding and head are in the first and last stage.
///
/// With `ep` or `etp`, operators whose tensors all run over experts are on the experts' mesh: the experts are
/// split over ep, their features over etp, and edp copies have different tokens (Liu et al.,
/// arXiv:2504.14960).
struct RecipeStrategy : PlanPolicies {
  Strategy strategy;
  std::optional<Pipeline> pipeline;
  /// Sets what the recipe says of a plan's options: all but the strategy.
  void apply_to(PlanOptions& options) const;
};
/// InputError, with the nearest legal recipe, when the recipe suits the model or the topology badly. The
/// graph's batch must be dp · mbs.
RecipeStrategy expand_recipe(const Recipe& recipe, const RecipeModel& model, const Topology& topology);
/// The config of one operator; nothing where the recipe is not legal.
std::optional<ParallelConfig> config_of_recipe(const Recipe& recipe, const RecipeModel& model,
                                               const Topology& topology, OperatorId op);

/// The configs of these operators on the devices of one group of the pipeline, wherever their layers lie. The
/// recipe must be legal, and the graph's batch dp · mbs.
std::vector<ParallelConfig> configs_on_group(const Recipe& recipe, const RecipeModel& model,
                                             const Topology& topology, std::span<const OperatorId> operators,
                                             std::int64_t group);

}  // namespace pipesim
