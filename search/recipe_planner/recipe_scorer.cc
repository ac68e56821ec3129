#include "search/recipe_planner/recipe_scorer.h"

#include <algorithm>
#include <istream>
#include <ostream>
#include <utility>

#include "search/recipes/expand_recipe.h"
#include "sim/base/errors.h"
#include "sim/base/out_of_memory.h"

namespace pipesim {

SizedRecipeModel::SizedRecipeModel(OperatorGraph made, const ModelParts& parts, const RankingRequest& request)
    : graph(std::move(made)), model(graph), meter(model, parts, request.costs, request.options) {}

RecipeScorer::Verdict RecipeScorer::score(RatedRecipe& rated, const SizedRecipeModel& sized,
                                          std::int64_t microbatches, std::optional<Nanoseconds> limit) {
  const RecipeStrategy made = expand_recipe(rated.recipe, sized.model, request_.costs.topology());
  PlanOptions options = request_.options;
  options.microbatches = static_cast<std::int32_t>(microbatches);
  made.apply_to(options);
  if (illegal(sized.graph, made.strategy, options, request_.costs.topology())) return Verdict::NotPossible;
  Evaluator& evaluator = evaluator_for(sized, options);
  constexpr Bytes kMostBytes(300'000'000);
  evaluator.forget(kMostBytes);
  evaluator.set_pipeline(std::move(options.pipeline), std::move(options.recompute));
  std::vector<DeviceMemory> peaks;
  const BoundStrategy strategy = evaluator.contents().bind(made.strategy);
  Nanoseconds at_least = 0;
  std::optional<Evaluation> evaluation;
  try {
    evaluation = limit ? evaluator.score_below(*limit, strategy, peaks)
                       : evaluator.score_from_few(strategy, peaks, at_least);
  } catch (const OutOfMemory&) {
    evaluator_.reset();
    return Verdict::TooLarge;
  }
  rated.bound.time = std::max(rated.bound.time, at_least);
  if (!evaluation) return limit ? Verdict::TooSlow : Verdict::Open;
  rated.evaluation = *evaluation;
  for (const DeviceMemory& peak : peaks) rated.peak = std::max(rated.peak, peak.peak);
  return Verdict::Rated;
}

Evaluator& RecipeScorer::evaluator_for(const SizedRecipeModel& sized, const PlanOptions& options) {
  PlanOptions unstaged = options;
  unstaged.pipeline.reset();
  unstaged.recompute = {};
  if (evaluator_ == nullptr || graph_ != &sized.graph || options_ != unstaged) {
    evaluator_.reset();  // task graphs may be large
    evaluator_ = std::make_unique<Evaluator>(sized.graph, request_.costs, unstaged);
    graph_ = &sized.graph;
    options_ = std::move(unstaged);
  }
  return *evaluator_;
}

void write_verdict(std::ostream& out, RecipeScorer::Verdict verdict, const RatedRecipe& rated) {
  const Evaluation& e = rated.evaluation;
  out << static_cast<int>(verdict) << ' ' << rated.bound.time << ' ' << e.time << ' ' << e.overflow.value
      << ' ' << e.proven << ' ' << e.spread << ' ' << rated.peak.value << '\n';
}

RecipeScorer::Verdict read_verdict(std::istream& in, RatedRecipe& rated) {
  Evaluation& e = rated.evaluation;
  int verdict = 0;
  if (!(in >> verdict >> rated.bound.time >> e.time >> e.overflow.value >> e.proven >> e.spread >>
        rated.peak.value))
    throw InternalError("another process has sent a recipe's figures in part");
  return static_cast<RecipeScorer::Verdict>(verdict);
}

}  // namespace pipesim
