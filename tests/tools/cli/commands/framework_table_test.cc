#include <gmock/gmock.h>

#include "models/zoo/zoo.h"
#include "tools/cli/planning/framework_table.h"
#include "tools/interop/framework/framework.h"
#include "tools/interop/frameworks.h"
#include "topologies/presets/presets.h"

namespace pipesim {
namespace {

constexpr const char* kLlama = "llama:sequence=128,layers=4,hidden=256,heads=8,kv_heads=8,ffn=512,vocab=1024";

// A plan of one recipe, which is all that was ranked, and rows of frameworks with another.
class TakeFastestOf : public testing::Test {
 protected:
  TakeFastestOf() {
    request_.with_shape = [](const ModelShape& shape) {
      return make_zoo_model(std::string(kLlama) + ",batch=" + std::to_string(shape.batch));
    };
  }

  [[nodiscard]] PlannerAnswer plan(const char* recipe) const {
    PlannerAnswer planned{plan_of_recipe(request_, parse_recipe(recipe))};
    planned.scored =
        Evaluator(planned.plan.graph, request_.costs, planned.plan.options).evaluate(planned.plan.strategy);
    planned.recipes = RecipeRanking{};
    planned.recipes->rated.push_back({parse_recipe(recipe), {}, *planned.scored, {}, 0});
    planned.proven = false;
    return planned;
  }
  [[nodiscard]] FrameworkRow row(const char* recipe, const std::string& runtime = "pipesim") const {
    return {framework_named("megatron"), RatedRecipe{parse_recipe(recipe), {}, *plan(recipe).scored, {}, 0},
            "proven", runtime, 2};
  }

  Problem problem_{"", make_zoo_model(std::string(kLlama) + ",batch=16"), "", make_topology("dgx-h100:1")};
  CostModel costs_{problem_.topology};
  PlanRequest request_{problem_, costs_, {}, {}, {}, {}};
};

constexpr const char* kFast = "dp8,mbs2";
constexpr const char* kSlow = "tp8,dp1,mbs16";

TEST_F(TakeFastestOf, PutsAFasterRecipeInThePlansPlace) {
  PlannerAnswer planned = plan(kSlow);
  const Evaluation slow = *planned.scored;
  take_fastest_of({row(kFast)}, request_, planned);
  const PlannerAnswer fast = plan(kFast);
  ASSERT_LT(fast.scored->time, slow.time);
  EXPECT_EQ(planned.scored->time, fast.scored->time);
  EXPECT_EQ(planned.plan.strategy, fast.plan.strategy);
  EXPECT_EQ(Evaluator(planned.plan.graph, costs_, planned.plan.options).evaluate(planned.plan.strategy).time,
            fast.scored->time);
  EXPECT_THAT(planned.note, testing::MatchesRegex("found among the recipes of Megatron-LM, [0-9.]+ % faster "
                                                  "than what was found among all"));
  ASSERT_EQ(planned.recipes->rated.size(), 2U);
  EXPECT_EQ(planned.recipes->best()->recipe, parse_recipe(kFast));
  EXPECT_GT(planned.recipes->best()->peak.value, 0);
  EXPECT_EQ(planned.recipes->rated.back().evaluation.time, slow.time);
  ASSERT_EQ(planned.contributions.size(), 1U);
  EXPECT_EQ(planned.contributions[0].name, "recipes of megatron");
  EXPECT_EQ(planned.contributions[0].seconds, 2);
  EXPECT_EQ(planned.contributions[0].devices_used, 8);
  EXPECT_EQ(planned.proven, false);
}

TEST_F(TakeFastestOf, LeavesAPlanThatIsFaster) {
  PlannerAnswer planned = plan(kFast);
  take_fastest_of({row(kSlow)}, request_, planned);
  EXPECT_EQ(planned.note, "");
  EXPECT_EQ(planned.plan.strategy, plan(kFast).plan.strategy);
  EXPECT_EQ(planned.recipes->rated.size(), 1U);
}

// Times under two runtimes do not compare.
TEST_F(TakeFastestOf, LeavesAPlanOfAnotherRuntime) {
  PlannerAnswer planned = plan(kSlow);
  take_fastest_of({row(kFast, "torch-compile")}, request_, planned);
  EXPECT_EQ(planned.note, "");
  EXPECT_EQ(planned.plan.strategy, plan(kSlow).plan.strategy);
  take_fastest_of({row(kFast, "torch-compile"), row(kFast, "pipesim:interference=0.5")}, request_, planned);
  EXPECT_EQ(planned.plan.strategy, plan(kFast).plan.strategy);
}

// A row may tell of less time than the plan takes as the request rates it.
TEST_F(TakeFastestOf, BelievesNoTimeButItsOwn) {
  PlannerAnswer planned = plan(kFast);
  FrameworkRow promising = row(kSlow);
  promising.best->evaluation.time = planned.scored->time / 2;
  take_fastest_of({promising}, request_, planned);
  EXPECT_EQ(planned.plan.strategy, plan(kFast).plan.strategy);
  EXPECT_EQ(planned.note, "");
}

}  // namespace
}  // namespace pipesim
