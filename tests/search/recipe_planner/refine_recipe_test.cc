#include "search/recipe_planner/refine_recipe.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <string>

#include "models/zoo/zoo.h"
#include "search/recipe_planner/rank_recipes.h"
#include "search/recipes/expand_recipe.h"
#include "sim/base/deadline.h"
#include "tests/fake_clock.h"
#include "tests/search/limited_memory.h"

namespace pipesim {
namespace {

constexpr const char* kRefinedGpt =
    "gpt:layers=12,hidden=512,heads=8,vocab=1024,sequence=256,positions=256,dropout=0,dtype=bfloat16";
constexpr std::int64_t kRefinedSamples = 32;

OperatorGraph refined_graph(const ModelShape& shape) {
  std::string text = std::string(kRefinedGpt) + ",batch=" + std::to_string(shape.batch);
  if (shape.sequence.parts > 1) text += ",zigzag=" + std::to_string(shape.sequence.parts);
  return make_zoo_model(text);
}

// A ranking on devices with so much memory for plans.
class Refined {
 public:
  explicit Refined(Bytes memory, const std::vector<std::string>& only = {})
      : topology_(with_device_memory("dgx-h100:gpus=4", memory.value)) {
    request_.options.optimizer = Optimizer::Adam;
    request_.samples = kRefinedSamples;
    request_.graph_of = refined_graph;
    std::vector<RecipeCondition> conditions{parse_recipe_condition("zero=0,1", false)};
    for (const std::string& text : only) conditions.push_back(parse_recipe_condition(text, false));
    RecipeRules rules;
    rules.allows = [this](const Recipe& recipe) {
      ++asked_;
      return recipe.schedule_name() == "1f1b" || recipe.schedule_name() == "interleaved";
    };
    request_.filter = RecipeFilter(conditions, rules);
  }

  [[nodiscard]] RecipeRanking rank() const {
    return rank_recipes(request_, [](const RankingProgress&) { return true; });
  }
  [[nodiscard]] RecipeRanking refine(std::int64_t most = INT64_MAX) const {
    return rank_and_refine(request_, [&](const RankingProgress& now) { return now.simulated < most; });
  }
  // What the recipe takes by itself.
  [[nodiscard]] Evaluation simulated(const Recipe& recipe) const {
    const OperatorGraph graph = refined_graph(recipe.shape(false));
    const RecipeModel model(graph);
    const RecipeStrategy made = expand_recipe(recipe, model, topology_);
    PlanOptions options = request_.options;
    made.apply_to(options);
    options.microbatches = static_cast<std::int32_t>(kRefinedSamples / graph.batch());
    return Evaluator(graph, costs_, options).evaluate(made.strategy);
  }
  [[nodiscard]] const RecipeFilter& filter() const { return request_.filter; }

 private:
  Topology topology_;
  OperatorGraph graph_ = refined_graph({1, 1, 0});
  RecipeModel model_{graph_};
  CostModel costs_{topology_};
  mutable std::int64_t asked_ = 0;
  RankingRequest request_{model_, costs_, {}, 0, {}, {}, {}};
};

TEST(RefineRanking, IsNeverWorseAndPassesAllRules) {
  int better = 0, partial = 0;
  for (const std::int64_t megabytes : {180, 220, 260, 300, 340, 2000}) {
    SCOPED_TRACE(megabytes);
    const Refined refined(Bytes(megabytes * 1'000'000));
    const RecipeRanking plain = refined.rank(), ranking = refined.refine();
    if (plain.best() == nullptr) {
      EXPECT_EQ(ranking.best(), nullptr);
      continue;
    }
    ASSERT_NE(ranking.best(), nullptr);
    const RatedRecipe& best = *ranking.best();
    EXPECT_EQ(ranking.proven(), plain.proven());
    EXPECT_EQ(refined.simulated(best.recipe).time, best.evaluation.time);
    EXPECT_TRUE(refined.simulated(best.recipe).feasible());
    EXPECT_TRUE(refined.filter().rules().allows(best.recipe));
    EXPECT_EQ(ranking.best_of_set.has_value(), best.evaluation.time < plain.best()->evaluation.time);
    EXPECT_LE(best.evaluation.time, plain.best()->evaluation.time);
    if (!ranking.best_of_set) continue;
    EXPECT_EQ(ranking.best_of_set->recipe, plain.best()->recipe);
    ++better;
    partial += best.recipe.recompute.kind == Recompute::Kind::First ? 1 : 0;
  }
  EXPECT_GT(better, 0);
  EXPECT_GT(partial, 0);
}

// The layers that are computed again are as few as fit.
TEST(RefineRanking, ComputesNoMoreLayersAgainThanItMust) {
  for (const std::int64_t megabytes : {180, 220, 260, 300, 340}) {
    const Refined refined(Bytes(megabytes * 1'000'000));
    const RecipeRanking ranking = refined.refine();
    if (ranking.best() == nullptr || ranking.best()->recipe.recompute.kind != Recompute::Kind::First)
      continue;
    Recipe fewer = ranking.best()->recipe;
    if (--fewer.recompute.count == 0) fewer.recompute = {};
    EXPECT_FALSE(refined.simulated(fewer).feasible()) << fewer.str();
  }
}

TEST(RefineRanking, HeedsConditions) {
  for (const std::int64_t megabytes : {220, 260, 300}) {
    const Refined refined(Bytes(megabytes * 1'000'000), {"recompute=none,selective", "mbs=1,2"});
    const RecipeRanking ranking = refined.refine();
    if (ranking.best() == nullptr) continue;
    EXPECT_NE(ranking.best()->recipe.recompute.kind, Recompute::Kind::Full);
    EXPECT_LE(ranking.best()->recipe.microbatch, 2);
  }
}

TEST(RefineRanking, EndsWhenItIsTold) {
  const Refined refined(Bytes(260'000'000));
  const RecipeRanking plain = refined.rank();
  const RecipeRanking ended = refined.refine(plain.simulated() + 1);
  EXPECT_LE(ended.refined, 1);
}

TEST(RefineRanking, KeepsToTheDeadline) {
  constexpr std::int64_t kMore = 100;  // that threads look once each before they end
  for (const std::int64_t looks : {100, 1000, 5000}) {
    const FakeClock clock;
    const Deadline until = clock.after(looks);
    const KeepTo keep(until);
    const RecipeRanking ranking = Refined(Bytes(260'000'000)).refine();
    EXPECT_LE(clock.looks(), looks + kMore);
    EXPECT_LE(ranking.bounded, ranking.recipes);
  }
}

}  // namespace
}  // namespace pipesim
