#pragma once

#include <cstdint>
#include <functional>

#include "costmodel/cost_model.h"
#include "search/peer_processes.h"
#include "search/recipe_planner/space/recipe_filter.h"
#include "search/recipes/recipe.h"
#include "search/recipes/recipe_model.h"
#include "sim/base/deadline.h"
#include "sim/base/units.h"
#include "taskgraph/plan/plan.h"

namespace pipesim {

/// What recipes are ranked for.
struct RankingRequest {
  const RecipeModel& model;  ///< with any batch
  const CostModel& costs;
  PlanOptions options;       ///< without pipeline, recomputation, sharding and microbatches
  std::int64_t samples = 0;  ///< of an iteration
  RecipeFilter filter;
  std::function<OperatorGraph(const ModelShape& shape)> graph_of;  ///< the model of another shape
  /// Whether the model can have a batch; empty: any.
  std::function<bool(std::int64_t batch)> takes_batch;
  int threads = 1;    ///< that simulate, 4 at most; the answer is the same with any number of them
  double within = 0;  ///< it ends when no recipe can take less than the best, less this share of it
  /// Where few recipes are simulated when the thread's deadline passes, the ranking goes on until this, or
  /// until there is a plan and kFewSimulated recipes are simulated.
  const Deadline* until_few = nullptr;
  static constexpr std::int64_t kFewSimulated = 4;
  /// Processes that rank the same recipes, and simulate some of them for all; nullptr: none. With peers there
  /// may be no deadline.
  PeerProcesses* peers = nullptr;

  /// The model's shape under a recipe; models without experts hand out no tokens.
  [[nodiscard]] ModelShape shape_of(const Recipe& recipe) const {
    return recipe.shape(filter.rules().local_dispatch && model.axes().has(AxisRole::Experts));
  }
};

/// The progress of a ranking.
struct RankingProgress {
  std::int64_t bounded = 0, recipes = 0, simulated = 0;
  Nanoseconds best = 0;     ///< 0: none yet
  double cost_of_best = 0;  ///< of simulating it, see cost_of_simulating()
};

}  // namespace pipesim
