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
  ModelShape shape;
  RecipeModel model;
  MeshMeter meter;

  SizedRecipeModel(OperatorGraph made, const ModelShape& of_recipe, const ModelParts& of_model,
                   const RankingRequest& request);
};

/// Simulates recipes. The evaluator of the last setting is kept. For one thread at a time.
class RecipeScorer {
 public:
  explicit RecipeScorer(const RankingRequest& request) : request_(request) {}

  enum class Verdict : std::uint8_t { Rated, NotPossible, TooSlow, Open, TooLarge };
  /// Rates the recipe. It is not possible where a rule that looks at operators refuses it; it is too slow
  /// when it was found to take as long as `limit` (ns). Without a limit it stays open where few microbatches
  /// do not tell its time, but that it is no less than what then is the bound; its time and peak are then
  /// estimates at the rate of these microbatches. It is too large where its task graph does not fit into
  /// memory, or would take more than one search may.
  Verdict score(RatedRecipe& rated, const std::shared_ptr<const SizedRecipeModel>& sized,
                std::int64_t microbatches, std::optional<Nanoseconds> limit);
  /// Of how many microbatches the last estimate is.
  [[nodiscard]] std::int32_t few() const { return few_; }

 private:
  void estimate_from_few(RatedRecipe& rated, const Evaluator& evaluator);
  Evaluator& evaluator_for(const std::shared_ptr<const SizedRecipeModel>& sized, const PlanOptions& options);

  const RankingRequest& request_;
  std::shared_ptr<const SizedRecipeModel> sized_;
  PlanOptions options_;
  std::unique_ptr<Evaluator> evaluator_;  // of these
  std::int32_t few_ = 1;
};

/// What it costs to simulate all of so many microbatches, as a share of the most that is: tasks that take
/// about a gigabyte.
double cost_of_simulating(const OperatorGraph& graph, std::int64_t microbatches);
/// Whether a simulation of so many microbatches of a model takes so much memory (hundreds of megabytes) that
/// no other should run beside it.
bool takes_much_memory(const OperatorGraph& graph, const Recipe& recipe, std::int64_t microbatches);

/// A verdict with the figures of the recipe, as a line that another process reads.
void write_verdict(std::ostream& out, RecipeScorer::Verdict verdict, const RatedRecipe& rated);
RecipeScorer::Verdict read_verdict(std::istream& in, RatedRecipe& rated);

}  // namespace pipesim
