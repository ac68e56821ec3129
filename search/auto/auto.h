#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "search/planners/planner.h"
#include "search/recipes/recipe.h"

namespace pipesim {

struct AutoOptions {
  SearchBudget budget;
  std::uint64_t seed = 1;
  std::size_t chains = 8;  ///< of searches over splits
  int threads = 1;
  std::string checkpoint;                                ///< file to write; "": none
  double checkpoint_every = 3;                           ///< seconds between two
  std::string resume;                                    ///< file to go on from; "": none
  bool seed_is_asked = false, chains_are_asked = false;  ///< then the file must have the same
  /// Samples of a microbatch on each copy of a pipeline. If set, DAPPLE is tried with it as well.
  std::optional<std::int64_t> copy_microbatch;
  bool recomputes_stages = false;  ///< was asked for, which no recipe that is ranked does
  std::optional<Recipe> recipe;    ///< a complete one to begin with, of the request's model and microbatches
};

/// Ranks all recipes, where the model has any (has_recipes()). Runs baselines and all other planners for the
/// model with the request's number of microbatches, and with more and fewer microbatches of the same samples.
/// Then continues from their plans with searches over splits (search/mcmc) and over everything
/// (search/joint). The plan is no worse than any of theirs. Where model and topology are large, only recipes
/// and the joint search from the best of them are asked.
///
/// With a budget in proposals alone, the plan depends on the seed and the chains, never on the threads. With
/// the thread's deadline (sim/base/deadline.h) each part gets a share of the time. The request needs an
/// observer and with_shape. InputError when no algorithm found a plan.
PlannedPipeline search_auto(const PlanRequest& request, const AutoOptions& options);

}  // namespace pipesim
