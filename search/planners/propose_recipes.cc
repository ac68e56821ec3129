#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "search/planners/planner.h"
#include "search/recipe_planner/rank_recipes.h"
#include "search/recipe_planner/refine_recipe.h"
#include "search/recipes/expand_recipe.h"
#include "search/stopwatch.h"
#include "sim/base/deadline.h"
#include "sim/base/errors.h"
#include "sim/base/suggest.h"

namespace pipesim {
namespace {

RankingRequest ranking_request_of(const PlanRequest& request, const RecipeModel& model) {
  return {model,
          request.costs,
          request.options(),
          request.samples(),
          request.settings.recipes,
          request.with_shape,
          request.takes_batch,
          request.settings.threads,
          request.settings.within,
          nullptr,
          request.peers};
}

// Ranks until the deadline, or until nobody wants it to go on.
RecipeRanking rank_in_sight(const PlanRequest& request, RankingRequest asked,
                            const ProgressCallback& progress) {
  std::optional<Deadline> until_few;
  if (request.until_few != nullptr) {
    until_few = request.until_few->with_stop(request.observer->interruption());
    asked.until_few = &*until_few;
  }
  const auto tell = told_as_search(progress);
  std::int64_t simulated = 0;
  RecipeRanking ranking = rank_and_refine(asked, [&](const RankingProgress& now) {
    if (now.simulated == 0) request.status(fmt::format("{} of {} recipes bounded", now.bounded, now.recipes));
    if (now.simulated > 0 && simulated == 0) request.status("");
    simulated = now.simulated;
    return tell(now);
  });
  request.status("");
  return ranking;
}

// What would let recipes fit that do not: twice the devices halve what they divide.
std::string help_for(const RecipeFilter& filter) {
  return fmt::format("; more devices, or devices with more memory, would help{}",
                     filter.conditions().empty() ? "" : ", or fewer conditions of --only and --not");
}

[[noreturn]] void refuse_ranking(const RecipeRanking& ranking, const PlanRequest& request) {
  const std::string all = with_separators(ranking.recipes);
  if (request.observer->interrupted())
    throw Interrupted("recipes: no recipe that fits into memory was found yet");
  if (ranking.left > 0 && ranking.left == ranking.too_large_to_simulate)
    throw InputError(
        fmt::format("recipes: the task graphs of {} of {} recipes do not fit into memory, and none of the "
                    "others was found to fit its devices; narrow them with --only and --not",
                    with_separators(ranking.left), all));
  if (!ranking.proven() && ranking.rated.empty())
    throw InputError(
        fmt::format("recipes: time was up when {} of {} recipes were bounded, and none simulated; "
                    "allow more --seconds, or narrow them with --only and --not",
                    with_separators(ranking.bounded), all));
  if (!ranking.proven())
    throw InputError(
        fmt::format("recipes: time was up; of {} recipes {} were simulated, none of which fits into "
                    "memory; {} are left; allow more --seconds",
                    all, with_separators(ranking.simulated()), with_separators(ranking.left)));
  if (ranking.rated.empty() && ranking.leanest)
    throw InputError(
        fmt::format("recipes: none of {} recipes fits into memory: each needs at least {} on a device, of "
                    "which {} are for plans; {} needs least{}",
                    all, pretty(ranking.leanest->bound.memory), pretty(ranking.leanest->usable),
                    ranking.leanest->recipe.str(), help_for(request.settings.recipes)));
  if (ranking.rated.empty())
    throw InputError(fmt::format("recipes: none of {} recipes is possible for this model", all));
  const RatedRecipe& nearest = *std::ranges::min_element(ranking.rated, {}, &RatedRecipe::share);
  throw InputError(fmt::format(
      "recipes: none of {} recipes fits into memory; the nearest, {}, needs {} on a device, {:.2f} times "
      "what plans may use there{}",
      all, nearest.recipe.str(), pretty(nearest.peak), nearest.share, help_for(request.settings.recipes)));
}

std::string note_of_ranking(const RecipeRanking& ranking, double within, bool interrupted) {
  constexpr double kPercent = 100;
  if (ranking.best_of_set) {
    RecipeRanking of_set = ranking;
    of_set.rated.erase(of_set.rated.begin());
    of_set.best_of_set.reset();
    const double less = 1 - static_cast<double>(ranking.best()->evaluation.time) /
                                static_cast<double>(of_set.best()->evaluation.time);
    return fmt::format("{:.1f} % less than {}, which is {}", kPercent * less, of_set.best()->recipe.str(),
                       note_of_ranking(of_set, within, interrupted));
  }
  const std::string of = fmt::format("best of {} recipes", with_separators(ranking.recipes));
  const std::string simulated = fmt::format("{} simulated", with_separators(ranking.simulated()));
  if (ranking.proven()) return fmt::format("{}, proven; {}", of, simulated);
  const std::optional<double> gap = ranking.gap();
  const std::string least =
      gap ? fmt::format("none of them faster than {}, {:.1f} % less than the best",
                        pretty(to_seconds(ranking.least_left)), *gap * kPercent)
          : fmt::format("{} not bounded", with_separators(ranking.recipes - ranking.bounded));
  const std::string left = fmt::format("{}, {} left, {}", simulated, with_separators(ranking.left), least);
  if (gap && *gap <= within) return fmt::format("{}, proven within {:.1f} %; {}", of, *gap * kPercent, left);
  const std::string_view why = interrupted ? "an interruption ended the search"
                               : ranking.left == ranking.too_large_to_simulate
                                   ? "the task graphs of those left do not fit into memory"
                                   : "--seconds ended the search";
  return fmt::format("not proven to be the {}: {}; {}", of, why, left);
}

}  // namespace

bool has_recipes(const OperatorGraph& graph) {
  const RecipeModel model(graph);
  return model.num_layers() > 1 && model.axes().has(AxisRole::Heads);
}

PlannerAnswer propose_recipes(const PlanRequest& request) {
  const Stopwatch time;
  request.observer->expect(request.settings.budget, std::nullopt);
  PlannerAnswer answer = propose_recipes(request, request.observer->callback());
  SearchOutcome told;
  told.seconds = time.seconds();
  told.proposals = answer.recipes->simulated();
  request.observer->finish(told);
  return answer;
}

PlannedModel plan_of_recipe(const PlanRequest& request, const Recipe& recipe) {
  const RecipeModel model(request.graph());
  const ModelShape shape = ranking_request_of(request, model).shape_of(recipe);
  OperatorGraph graph = request.with_shape(shape);
  RecipeStrategy made = expand_recipe(recipe, RecipeModel(graph), request.topology());
  PlanOptions options = request.options();
  options.microbatches = static_cast<std::int32_t>(request.samples() / shape.batch);
  made.apply_to(options);
  PlannedModel planned(std::move(graph), std::move(options), std::move(made.strategy));
  planned.batch = shape.batch;
  planned.sequence = shape.sequence;
  planned.devices.assign(static_cast<std::size_t>(recipe.pipeline * recipe.chunks),
                         recipe.devices() / recipe.pipeline);
  return planned;
}

PlannerAnswer propose_recipes(const PlanRequest& request, const ProgressCallback& progress) {
  const RecipeModel model(request.graph());
  const RecipeFilter& filter = request.settings.recipes;
  RecipeRanking ranking = rank_in_sight(request, ranking_request_of(request, model), progress);
  if (ranking.recipes == 0 && ranking.proven())
    throw NoRecipeLeft("recipes: " + why_no_recipe(model, request.topology(), request.samples(), filter));
  const RatedRecipe* best = ranking.best();
  if (best == nullptr) refuse_ranking(ranking, request);
  const KeepTo keep(nullptr);  // writing down what was found takes little
  PlannerAnswer answer{plan_of_recipe(request, best->recipe)};
  answer.note = note_of_ranking(ranking, request.settings.within, request.observer->interrupted());
  answer.proven = ranking.proven();
  answer.scored = best->evaluation;
  answer.recipes = std::move(ranking);
  return answer;
}

}  // namespace pipesim
