#include "tools/cli/planning/recipe_ranking.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <vector>

#include "sim/base/suggest.h"
#include "tools/render/base/table.h"

namespace pipesim {
namespace {

using Json = nlohmann::ordered_json;

std::vector<RatedRecipe> best_of(const RecipeRanking& ranking) {
  std::vector<RatedRecipe> best;
  for (const RatedRecipe& r : ranking.rated) {
    if (best.size() < RecipeRanking::kTold && r.evaluation.feasible()) best.push_back(r);
  }
  return best;
}

std::string table_of(const std::vector<RatedRecipe>& rated) {
  Table table(
      {{"recipe"}, {"iteration", Align::Right}, {"at least", Align::Right}, {"memory", Align::Right}});
  for (const RatedRecipe& r : rated)
    table.add({r.recipe.str(), pretty(to_seconds(r.evaluation.time)), pretty(to_seconds(r.bound.time)),
               pretty(r.peak)});
  return table.str(2);
}

Json rows_of(const std::vector<RatedRecipe>& rated) {
  Json rows = Json::array();
  for (const RatedRecipe& r : rated)
    rows.push_back({{"recipe", r.recipe.str()},
                    {"iteration_time_s", to_seconds(r.evaluation.time).value},
                    {"least_time_s", to_seconds(r.bound.time).value},
                    {"memory_bytes", r.peak.value},
                    {"least_memory_bytes", r.bound.memory.value}});
  return rows;
}

}  // namespace

std::string to_text(const RecipeRanking& ranking) {
  std::string text = fmt::format(
      "{} recipes: {} need more memory than there is, {} simulated, the others are slower by their bounds\n",
      with_separators(ranking.recipes), with_separators(ranking.too_large),
      with_separators(ranking.simulated()));
  if (ranking.left > 0)
    text =
        fmt::format("{} recipes: {} need more memory than there is, {} simulated, {} left for lack of time\n",
                    with_separators(ranking.recipes), with_separators(ranking.too_large),
                    with_separators(ranking.simulated()), with_separators(ranking.left));
  if (ranking.refined > 0)
    text += fmt::format(
        "{} beside them simulated, with layers moved, some of them computed again, or another microbatch\n",
        with_separators(ranking.refined));
  text += table_of(best_of(ranking));
  const std::vector<RatedRecipe> front = ranking.pareto_front();
  if (front.size() > 1) {
    text += "\nof those simulated, none is both faster and leaner than\n";
    text += table_of(front);
  }
  return text;
}

Json json_of(const RecipeRanking& ranking) {
  Json json{{"recipes", ranking.recipes},
            {"bounded", ranking.bounded},
            {"too_large", ranking.too_large},
            {"not_possible", ranking.not_possible},
            {"simulated", ranking.simulated()},
            {"left", ranking.left},
            {"refined", ranking.refined},
            {"best_of_set", ranking.best_of_set ? rows_of({*ranking.best_of_set}).front() : Json()},
            {"least_time_left_s", nullptr},
            {"best", rows_of(best_of(ranking))},
            {"pareto_front", rows_of(ranking.pareto_front())}};
  if (ranking.left > 0 && ranking.bounded == ranking.recipes)
    json["least_time_left_s"] = to_seconds(ranking.least_left).value;
  return json;
}

}  // namespace pipesim
