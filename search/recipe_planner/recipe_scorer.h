#pragma once

#include <iosfwd>
#include <memory>
#include <optional>

#include "search/evaluator.h"
#include "search/recipe_planner/measuring/mesh_costs.h"
#include "search/recipe_planner/rank_recipes.h"

namespace pipesim {

/// The model with the batch and the order of positions that recipes need.
struct SizedRecipeModel {
  OperatorGraph graph;
  RecipeModel model;
  MeshMeter meter;

  SizedRecipeModel(OperatorGraph made, const ModelParts& parts, const RankingRequest& request);
};

/// Simulates recipes. The evaluator of the last setting is kept. For one thread at a time.
class RecipeScorer {
 public:
  explicit RecipeScorer(const RankingRequest& request) : request_(request) {}

  enum class Verdict : std::uint8_t { Rated, NotPossible, TooSlow, Open, TooLarge };
  /// Rates the recipe. It is not possible where a rule that looks at operators refuses it; it is too slow
  /// when it was found to take as long as `limit` (ns). Without a limit it stays open where few microbatches
  /// do not tell its time, but that it is no less than what then is the bound. It is too large where its task
  /// graph does not fit into memory.
  Verdict score(RatedRecipe& rated, const SizedRecipeModel& sized, std::int64_t microbatches,
                std::optional<Nanoseconds> limit);

 private:
  Evaluator& evaluator_for(const SizedRecipeModel& sized, const PlanOptions& options);

  const RankingRequest& request_;
  const OperatorGraph* graph_ = nullptr;
  PlanOptions options_;
  std::unique_ptr<Evaluator> evaluator_;  // of these
};

/// A verdict with the figures of the recipe, as a line that another process reads.
void write_verdict(std::ostream& out, RecipeScorer::Verdict verdict, const RatedRecipe& rated);
RecipeScorer::Verdict read_verdict(std::istream& in, RatedRecipe& rated);

}  // namespace pipesim
