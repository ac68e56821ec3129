// The planner over recipes against simulating all of them.
#include <gmock/gmock.h>

#include <algorithm>
#include <limits>
#include <string>
#include <vector>

#include "models/zoo/zoo.h"
#include "search/recipe_planner/rank_recipes.h"
#include "search/recipes/expand_recipe.h"
#include "sim/base/deadline.h"
#include "tests/fake_clock.h"
#include "tests/search/limited_memory.h"
#include "tests/slow_test.h"
#include "topologies/presets/presets.h"

namespace pipesim {
namespace {

using testing::Gt;
using testing::IsEmpty;
using testing::Lt;

// A small set of recipes, few enough to simulate all.
struct RankedCase {
  std::string text, system;
  Bytes left;  ///< of a device's memory; 0: all that plans may use
  std::int64_t samples;
  std::vector<std::string> only;

  [[nodiscard]] OperatorGraph graph_of(std::int64_t batch, std::int64_t parts) const {
    std::string model =
        text + (text.find(':') == std::string::npos ? ":" : ",") + "batch=" + std::to_string(batch);
    if (parts > 1) model += ",zigzag=" + std::to_string(parts);
    return make_zoo_model(model);
  }
};

class Ranked {
 public:
  explicit Ranked(RankedCase c) : case_(std::move(c)), topology_(topology_of(case_)) {
    request_.options.optimizer = Optimizer::Adam;
    std::vector<RecipeCondition> conditions;
    for (const std::string& condition : case_.only)
      conditions.push_back(parse_recipe_condition(condition, false));
    request_.filter = RecipeFilter(conditions);
    request_.samples = case_.samples;
    request_.graph_of = [this](const ModelShape& shape) {
      return case_.graph_of(shape.batch, shape.sequence.parts);
    };
  }

  static Topology topology_of(const RankedCase& c) {
    return c.left.value == 0 ? make_topology(c.system) : with_device_memory(c.system.c_str(), c.left.value);
  }

  [[nodiscard]] RecipeRanking rank(std::int64_t most = INT64_MAX, int threads = 1, double within = 0) const {
    RankingRequest request = request_;
    request.threads = threads;
    request.within = within;
    return rank_recipes(request, [&](const RankingProgress& now) { return now.simulated < most; });
  }

  // The thread's deadline passes as soon as somebody asks, the one for few plans does not.
  [[nodiscard]] RecipeRanking rank_late(bool goes_on_to_few) const {
    double now = 0;
    const Deadline until(1, [&] { return now; }), until_few(1000, [&] { return now; });
    RankingRequest request = request_;
    request.samples = case_.samples;
    request.until_few = goes_on_to_few ? &until_few : nullptr;
    const KeepTo keep(until);
    return rank_recipes(request, [&](const RankingProgress&) {
      now = 2;
      return true;
    });
  }

  // All recipes, simulated one by one; those that fit first, then the fastest.
  [[nodiscard]] std::vector<Evaluation> all() const {
    std::vector<Evaluation> found;
    RecipeSpace(model_, topology_, case_.samples, request_.filter).visit([&](const Recipe& recipe) {
      const OperatorGraph graph = case_.graph_of(recipe.data * recipe.microbatch, recipe.context);
      const RecipeModel model(graph);
      const RecipeStrategy made = expand_recipe(recipe, model, topology_);
      PlanOptions options = request_.options;
      made.apply_to(options);
      options.microbatches = static_cast<std::int32_t>(case_.samples / graph.batch());
      if (illegal(graph, made.strategy, options, topology_)) return;
      Evaluator evaluator(graph, costs_, options);
      found.push_back(evaluator.evaluate(made.strategy));
    });
    std::ranges::sort(found, {}, [](const Evaluation& e) { return std::pair(e.overflow, e.time); });
    return found;
  }

 private:
  RankedCase case_;
  Topology topology_;
  CostModel costs_{topology_};
  OperatorGraph graph_{case_.graph_of(8, 1)};
  RecipeModel model_{graph_};
  RankingRequest request_{model_, costs_, {}, 0, {}, {}, {}, 1, 0};
};

RankedCase ranked_llama(Bytes left, std::vector<std::string> only) {
  return {"llama3-8b:layers=4,hidden=1024,heads=8,kv_heads=4,vocab=4096,sequence=512,ffn=2048", "dgx-a100",
          left, 16, std::move(only)};
}

SLOW_TEST(RankRecipes, FindsTheBestOfAll) {
  const std::vector<RankedCase> cases{
      ranked_llama(Bytes(0), {"mbs=2,4", "zero=0,1", "cp=1,2", "pp=2,4", "recompute=none"}),
      ranked_llama(Bytes(0), {"pp=1,4", "cp=1", "mbs=1", "recompute=selective,full"}),
      {"mixtral-8x7b:layers=2,hidden=512,heads=8,kv_heads=4,vocab=512,sequence=128,ffn=1024",
       "dgx-a100",
       Bytes(0),
       8,
       {"tp=1,2", "cp=1", "mbs=2", "recompute=none", "pp=1,2", "zero=0,2"}},
      {"llama3-8b:layers=6,hidden=256,heads=8,kv_heads=4,vocab=512,sequence=128,ffn=512",
       "levels:4@10GB/s,2@1GB/s",
       Bytes(0),
       16,
       {"tp=1,2", "mbs=2", "zero=0,3", "recompute=none", "pp=2"}},
      {"gpt3-13b:layers=8,hidden=1024,heads=8,vocab=4096,sequence=512",
       "dgx-a100+dgx-h100",
       Bytes(0),
       64,
       {"tp=1", "cp=1", "mbs=2", "zero=0,1", "recompute=none", "pp=1,2,4", "vpp=1",
        "schedule=1f1b,zb-h1,none"}}};
  for (const RankedCase& c : cases) {
    const Ranked ranked(c);
    const RecipeRanking ranking = ranked.rank();
    const std::vector<Evaluation> all = ranked.all();
    ASSERT_FALSE(all.empty());
    ASSERT_NE(ranking.best(), nullptr);
    EXPECT_EQ(ranking.best()->evaluation, all.front());
    EXPECT_TRUE(ranking.proven());
    EXPECT_EQ(ranking.recipes, ranking.bounded);
    EXPECT_GE(static_cast<std::size_t>(ranking.recipes), all.size());
    EXPECT_THAT(ranking.rated.size(), Lt(all.size())) << "all had to be simulated";
    for (const RatedRecipe& r : ranking.rated) {
      EXPECT_LE(r.bound.time, r.evaluation.time) << r.recipe.str();
      EXPECT_LE(r.bound.memory, r.peak) << r.recipe.str();
    }
  }
}

TEST(RankRecipes, GoesOnUntilFewAreSimulated) {
  const Ranked ranked(ranked_llama(Bytes(0), {"pp=2,4"}));
  const RecipeRanking none = ranked.rank_late(false);
  EXPECT_EQ(none.best(), nullptr);
  EXPECT_EQ(none.simulated(), 0);
  const RecipeRanking few = ranked.rank_late(true);
  ASSERT_NE(few.best(), nullptr);
  EXPECT_FALSE(few.proven());
  EXPECT_GE(few.simulated(), RankingRequest::kFewSimulated);
  EXPECT_LE(few.simulated(), 2 * RankingRequest::kFewSimulated);
  EXPECT_LT(few.bounded, few.recipes);
}

// An A100 has a third of the rate of an H100: stages on it get fewer layers, and copies of the model on
// either are no better than the slower.
SLOW_TEST(RankRecipes, SplitsLayersBySpeedOfDevices) {
  const auto best_on = [](const std::string& system) {
    RankedCase c{"gpt3-13b", system, Bytes(0), 128, {}};
    const Ranked ranked(std::move(c));
    const RecipeRanking ranking = ranked.rank(INT64_MAX, 2);
    EXPECT_TRUE(ranking.proven());
    return *ranking.best();
  };
  const RatedRecipe mixed = best_on("dgx-a100+dgx-h100");
  EXPECT_LT(mixed.evaluation.time, best_on("dgx-h100").evaluation.time);
  EXPECT_LT(mixed.evaluation.time, best_on("dgx-a100").evaluation.time);
  EXPECT_LT(mixed.evaluation.time, best_on("dgx-a100:2").evaluation.time);
  ASSERT_EQ(mixed.recipe.pipeline, 2);
  ASSERT_TRUE(mixed.recipe.first && mixed.recipe.last);
  EXPECT_LT(*mixed.recipe.first, *mixed.recipe.last - 4);
}

SLOW_TEST(RankRecipes, LeavesOutWhatDoesNotFit) {
  const std::vector<std::string> only{"mbs=2", "cp=1", "zero=0,1", "pp=1,2"};
  const Bytes of_best = Ranked(ranked_llama(Bytes(0), only)).rank().best()->peak;
  const Ranked tight(ranked_llama(Bytes(of_best.value / 2), only));
  const RecipeRanking ranking = tight.rank();
  const std::vector<Evaluation> all = tight.all();
  const auto fit = std::ranges::count_if(all, &Evaluation::feasible);
  ASSERT_THAT(fit, Gt(0));
  ASSERT_THAT(fit, Lt(std::ssize(all)));
  ASSERT_NE(ranking.best(), nullptr);
  EXPECT_EQ(ranking.best()->evaluation, all.front());
  EXPECT_THAT(ranking.too_large, Gt(0));
  EXPECT_LE(ranking.too_large, std::ssize(all) - fit);
}

TEST(RankRecipes, TellsTheLeanestWhereNoneFits) {
  const RecipeRanking ranking =
      Ranked(ranked_llama(Bytes(1'000'000), {"mbs=2", "cp=1", "pp=1,2", "zero=0,1"})).rank();
  EXPECT_EQ(ranking.best(), nullptr);
  EXPECT_TRUE(ranking.proven());
  EXPECT_EQ(ranking.too_large, ranking.recipes);
  ASSERT_TRUE(ranking.leanest.has_value());
  EXPECT_THAT(ranking.leanest->bound.memory.value, Gt(10'000'000));
}

TEST(RankRecipes, SaysWhatIsLeftWhenItIsEnded) {
  const Ranked ranked(ranked_llama(Bytes(0), {"mbs=1,2"}));
  const RecipeRanking whole = ranked.rank(), cut = ranked.rank(2);
  EXPECT_EQ(cut.simulated(), 2);  // one by one at first
  EXPECT_FALSE(cut.proven());
  EXPECT_THAT(cut.left, Gt(0));
  EXPECT_LE(cut.least_left, whole.best()->evaluation.time);
  EXPECT_GE(cut.best()->evaluation.time, whole.best()->evaluation.time);
  const RecipeRanking none = ranked.rank(0);
  EXPECT_THAT(none.rated, IsEmpty());
  EXPECT_EQ(none.left, none.recipes);
  EXPECT_EQ(none.least_left, 0);
}

// Usual recipes come first: a plan is there long before all recipes are bounded, and better ones follow.
TEST(RankRecipes, HasAPlanAtAnyTime) {
  const Ranked ranked(ranked_llama(Bytes(0), {}));
  Nanoseconds before = std::numeric_limits<Nanoseconds>::max();
  for (const std::int64_t most : {1, 4, 16}) {
    const RecipeRanking ranking = ranked.rank(most);
    ASSERT_NE(ranking.best(), nullptr);
    EXPECT_LE(ranking.best()->evaluation.time, before);
    before = ranking.best()->evaluation.time;
    EXPECT_EQ(most > 1 || ranking.bounded < ranking.recipes, true);
  }
  // A deadline that passes at any look leaves a ranking that tells what is left.
  for (const std::int64_t looks : {10, 100, 400, 1000}) {
    const Deadline deadline = FakeClock().after(looks);
    const KeepTo keep(deadline);
    const RecipeRanking ranking = ranked.rank();
    EXPECT_FALSE(ranking.proven());
    EXPECT_THAT(ranking.left, Gt(0));
    // Before they are counted there are none.
    EXPECT_LE(ranking.left + ranking.too_large + ranking.not_possible,
              std::max<std::int64_t>(1, ranking.recipes));
  }
}

TEST(RankRecipes, EndsWhenNoneCanBeMuchBetter) {
  const Ranked ranked(ranked_llama(Bytes(0), {"mbs=1,2"}));
  const RecipeRanking whole = ranked.rank(), near = ranked.rank(INT64_MAX, 1, 0.2);
  EXPECT_EQ(whole.gap(), 0);
  EXPECT_THAT(near.simulated(), Lt(whole.simulated()));
  ASSERT_TRUE(near.gap().has_value());
  EXPECT_LE(*near.gap(), 0.2);
  EXPECT_THAT(near.left, Gt(0));
  EXPECT_FALSE(near.proven());
  const auto best = static_cast<double>(whole.best()->evaluation.time);
  EXPECT_LE(static_cast<double>(near.best()->evaluation.time) * (1 - *near.gap()), best);
  EXPECT_EQ(ranked.rank(0).gap(), std::nullopt);
}

TEST(RankRecipes, IsTheSameWithAnyNumberOfThreads) {
  const Ranked ranked(ranked_llama(Bytes(0), {"mbs=1,2", "zero=0,1"}));
  const RecipeRanking alone = ranked.rank();
  for (const int threads : {2, 5}) {
    const RecipeRanking together = ranked.rank(INT64_MAX, threads);
    EXPECT_EQ(together.too_slow, alone.too_slow);
    EXPECT_EQ(together.too_large, alone.too_large);
    ASSERT_EQ(together.rated.size(), alone.rated.size());
    for (std::size_t i = 0; i < alone.rated.size(); ++i) {
      EXPECT_EQ(together.rated[i].recipe, alone.rated[i].recipe);
      EXPECT_EQ(together.rated[i].bound, alone.rated[i].bound);
      EXPECT_EQ(together.rated[i].evaluation.time, alone.rated[i].evaluation.time);
      EXPECT_EQ(together.rated[i].peak, alone.rated[i].peak);
    }
  }
}

TEST(RankRecipes, TheFrontIsFasterOrLeaner) {
  const RecipeRanking ranking = Ranked(ranked_llama(Bytes(0), {"mbs=1,2", "zero=0,1"})).rank();
  const std::vector<RatedRecipe> front = ranking.pareto_front();
  ASSERT_FALSE(front.empty());
  EXPECT_EQ(front.front().recipe, ranking.best()->recipe);
  for (std::size_t i = 1; i < front.size(); ++i) {
    EXPECT_GE(front[i].evaluation.time, front[i - 1].evaluation.time);
    EXPECT_LT(front[i].peak, front[i - 1].peak);
  }
  for (const RatedRecipe& r : ranking.rated) {
    EXPECT_TRUE(std::ranges::any_of(front, [&](const RatedRecipe& f) {
      return f.evaluation.time <= r.evaluation.time && f.peak <= r.peak;
    })) << r.recipe.str();
  }
}

TEST(RankRecipes, NumbersHaveSeparators) {
  EXPECT_EQ(with_separators(7), "7");
  EXPECT_EQ(with_separators(999), "999");
  EXPECT_EQ(with_separators(41208), "41,208");
  EXPECT_EQ(with_separators(1234567), "1,234,567");
}

}  // namespace
}  // namespace pipesim
