// Estimates of recipes, and the walk over meshes, by which the planner chooses what to simulate first.
#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "models/zoo/zoo.h"
#include "search/recipe_planner/estimate_order.h"
#include "search/recipe_planner/mesh_walk.h"
#include "search/recipe_planner/recipe_estimate.h"
#include "topologies/presets/presets.h"

namespace pipesim {
namespace {

using testing::DoubleNear;
using testing::Gt;
using testing::Lt;

TEST(LearnedRatios, KnowsTheClassThatWasSeenBest) {
  LearnedRatios<5> ratios;
  EXPECT_EQ(ratios.expected({1, 2, 3, 4, 4}, 0.3), 0.3);
  for (int i = 0; i < 50; ++i) ratios.learn({1, 2, 3, 4, 4}, 1);
  EXPECT_THAT(ratios.expected({1, 2, 3, 4, 4}, 0), DoubleNear(1, 1e-3));
  EXPECT_THAT(ratios.expected({1, 7, 8, 9, 9}, 0), DoubleNear(1, 0.02)) << "of the widest class alone";
  EXPECT_EQ(ratios.expected({1, 7, 8, 9, 9}, 0, 1), 0) << "which is left out";
  EXPECT_EQ(ratios.expected({5, 6, 7, 8, 8}, 0), 0);
  ratios.learn({1, 7, 8, 9, 9}, 0);
  EXPECT_THAT(ratios.expected({1, 7, 8, 9, 9}, 0), Lt(ratios.expected({1, 2, 3, 4, 4}, 0)));
}

// Where each microbatch gathers weights from other nodes, bounds of pipelines are far below; what is
// simulated tells how far.
TEST(RecipeEstimate, FollowsWhatWasSimulated) {
  RecipeEstimate estimate;
  EstimateClass sharded, plain;
  sharded.zero = 3, sharded.pipelined = plain.pipelined = true;
  sharded.copies = EstimateClass::Copies::BetweenNodes;
  const auto over = [&](const EstimateClass& of) {
    return estimate.time_over_bound(of, OpenRecipe::Known::OfTraffic, false);
  };
  EXPECT_THAT(over(sharded), Gt(over(plain)));
  EstimateClass inside = sharded;
  inside.copies = EstimateClass::Copies::InNode, inside.mesh = 1;
  const double unknown = over(inside);
  EXPECT_EQ(unknown, over(plain));
  for (int i = 0; i < 20; ++i) estimate.learn_time(sharded, OpenRecipe::Known::OfTraffic, 100, 110);
  EXPECT_THAT(over(sharded), DoubleNear(1.1, 0.01));
  EXPECT_EQ(over(inside), unknown);
  EXPECT_EQ(estimate.time_over_bound(plain, OpenRecipe::Known::OfFew, false), 1);
}

// Gathers for one sample a device are far above their bound; they say nothing of those for many samples once
// a plan is there.
TEST(RecipeEstimate, LearnsApartBySamples) {
  RecipeEstimate estimate;
  EstimateClass few, many;
  few.zero = many.zero = 3;
  few.samples = 14, many.samples = 18;
  few.mesh = 1, many.mesh = 2;
  const auto over = [&](const EstimateClass& of, bool by_samples) {
    return estimate.time_over_bound(of, OpenRecipe::Known::OfTraffic, by_samples);
  };
  const double before = over(many, true);
  for (int i = 0; i < 20; ++i) estimate.learn_time(few, OpenRecipe::Known::OfTraffic, 100, 200);
  EXPECT_THAT(over(few, true), DoubleNear(2, 0.1));
  EXPECT_EQ(over(many, true), before);
  EXPECT_THAT(over(many, false), DoubleNear(2, 0.1));
}

// What keeps all gathered weights takes many times the memory of what gathers them again.
TEST(RecipeEstimate, LearnsMemoryOfKeptGatheredWeightsApart) {
  RecipeEstimate estimate;
  EstimateClass kept, again;
  kept.zero = 4, again.zero = 3;
  const double before = estimate.memory_over_bound(again);
  estimate.learn_memory(kept, 0.1, 1);
  EXPECT_THAT(estimate.memory_over_bound(kept), Gt(4));
  EXPECT_EQ(estimate.memory_over_bound(again), before);
}

// What was simulated on one mesh tells the memory of others on which a device does the same.
TEST(RecipeEstimate, KnowsMemoryOfMeshesWithTheSameWork) {
  RecipeEstimate estimate;
  EstimateClass seen, alike, other;
  alike.mesh = 1;
  other.mesh = 2, other.work = 1;
  EXPECT_FALSE(estimate.knows_memory(seen));
  for (int i = 0; i < 20; ++i) estimate.learn_memory(seen, 0.5, 1);
  EXPECT_TRUE(estimate.knows_memory(seen));
  EXPECT_TRUE(estimate.knows_memory(alike));
  EXPECT_THAT(estimate.memory_over_bound(alike), DoubleNear(2, 0.1));
  EXPECT_FALSE(estimate.knows_memory(other));
}

struct WalkCase {
  OperatorGraph graph;
  Topology topology;
  RecipeModel model{graph};
  RecipeSpace space;

  WalkCase(const std::string& text, const std::string& system, std::int64_t samples)
      : graph(make_zoo_model(text)),
        topology(make_topology(system)),
        space(model, topology, samples, RecipeFilter()) {}
};

constexpr const char* kDense =
    "llama3-8b:layers=4,hidden=512,heads=8,kv_heads=4,vocab=512,sequence=128,ffn=512";
constexpr const char* kOfExperts =
    "mixtral-8x7b:layers=2,hidden=512,heads=8,kv_heads=4,vocab=512,sequence=128,ffn=1024";

TEST(MeshWalk, ReachesAllMeshesFromUsualOnes) {
  for (const char* text : {kDense, kOfExperts}) {
    const WalkCase c(text, "dgx-a100:2", 64);
    const MeshWalk walk(c.space);
    std::vector<std::uint32_t> open = walk.usual();
    ASSERT_FALSE(open.empty());
    EXPECT_THAT(open.size(), Lt(c.space.meshes().size() / 4));
    std::set<std::uint32_t> reached(open.begin(), open.end());
    while (!open.empty()) {
      const std::uint32_t mesh = open.back();
      open.pop_back();
      for (const std::uint32_t other : walk.near(mesh)) {
        if (reached.insert(other).second) open.push_back(other);
      }
    }
    EXPECT_EQ(reached.size(), c.space.meshes().size());
  }
}

OpenRecipe open_recipe(Nanoseconds bound, std::uint32_t mesh, float memory = 0.5) {
  OpenRecipe recipe;
  recipe.bound = bound, recipe.mesh = mesh, recipe.memory = memory;
  recipe.known = OpenRecipe::Known::OfTraffic;
  return recipe;
}

TEST(EstimateOrder, TakesTheLeastEstimateFirst) {
  const WalkCase c(kDense, "dgx-a100", 64);
  EstimateOrder order(c.space, [](std::uint32_t) { return 0.0; });
  order.add(open_recipe(102, 1));
  order.add(open_recipe(100, 0));
  order.add(open_recipe(90, 2, 1.5));  // will not fit
  order.refresh(true);
  ASSERT_EQ(order.meshes().size(), 3U);
  EXPECT_EQ(order.take_first(1000, 50), std::nullopt);
  EXPECT_EQ(order.take_first(1000, 1e9)->mesh, 0U);
  // What was simulated of a mesh tells of others like it.
  order.add(open_recipe(100, 0));
  order.learn_time(open_recipe(100, 0), 200);
  order.refresh(true);
  EXPECT_EQ(order.take_first(1000, 1e9)->mesh, 1U);
  EXPECT_EQ(order.take_first(95, 1e9)->mesh, 2U) << "no other has so small a bound";
  std::size_t left = 0;
  order.take_all([&](const OpenRecipe&) { ++left; });
  EXPECT_EQ(left, 1U);
}

}  // namespace
}  // namespace pipesim
