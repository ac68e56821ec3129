#include <gmock/gmock.h>

#include <algorithm>
#include <string>

#include "search/recipes/expand_recipe.h"
#include "tests/executor/equality_case.h"
#include "tests/search/recipes/random_recipe.h"
#include "tests/search/recipes/scanning_layers.h"
#include "tests/seeds.h"
#include "tests/taskgraph/random_strategies.h"

namespace pipesim {
namespace {

class EqualRecipes : public testing::TestWithParam<EqualModel> {};

TEST_P(EqualRecipes, ComputeWhatTheUnsplitModelDoes) {
  const EqualityCase c(GetParam().model);
  const RecipeModel model(c.graph);
  PlanOptions unsplit;
  unsplit.microbatches = 4;
  Reference reference = c.reference(unsplit);
  for_each_seed(GetParam().plans, [&](Rng& rng) {
    const Recipe recipe = random_recipe(model, most_devices, rng);
    SCOPED_TRACE(recipe.str());
    EXPECT_EQ(recipe.devices(), most_devices);
    const RecipeStrategy made = expand_recipe(recipe, model, c.topology);
    PlanOptions options = unsplit;
    made.apply_to(options);
    reference.check(made.strategy, options);
  });
}

// A device gets one stage's part of a microbatch's gradient of the shared embedding, and computes the other
// stage's part later.
TEST(EqualRecipes, DivideAWeightOfTwoStages) {
  const EqualityCase c("gpt:batch=4,layers=4,hidden=32,heads=8,vocab=50,sequence=8,positions=8");
  PlanOptions options;
  options.microbatches = 4;
  Reference reference = c.reference(options);
  for (const char* sharding : {"zero2,shard=2", "zero3,shard=2", "zero3"}) {
    const RecipeStrategy made = expand_recipe(parse_recipe("tp2,pp2,cp2,dp1,mbs4," + std::string(sharding)),
                                              RecipeModel(c.graph), c.topology);
    made.apply_to(options);
    reference.check(made.strategy, options);
  }
}

// Along cp a scan has all positions of some heads, and attention, whose keys are selected, those of its own.
// What selects keys runs again, though it has no backward pass.
TEST(EqualRecipes, ExchangeHeadsOfScans) {
  const EqualityCase c(scanning_layers(2));
  if (!make_tested_devices(c.graph, most_devices)->has_all_kernels()) GTEST_SKIP() << "no GPU kernel scans";
  PlanOptions unsplit;
  unsplit.microbatches = 2;
  Reference reference = c.reference(unsplit);
  for (const char* recipe :
       {"tp8,dp1,mbs2", "cp8,dp1,mbs2", "tp2,cp2,dp2,sp,mbs1", "tp2,pp2,cp2,dp1,mbs2", "cp4,dp2,mbs1,zero3",
        "tp2,pp2,cp2,dp1,mbs2,recompute=full", "tp4,dp2,mbs1,recompute=selective"}) {
    SCOPED_TRACE(recipe);
    PlanOptions options = unsplit;
    const RecipeStrategy made = expand_recipe(parse_recipe(recipe), RecipeModel(c.graph), c.topology);
    made.apply_to(options);
    reference.check(made.strategy, options);
  }
  for_each_seed(10, [&](Rng& rng) {
    reference.check(random_strategy(c.graph, rng, most_devices, static_cast<std::int64_t>(1 + rng.below(8))));
  });
}

// Two stages on each group, steps beside each other, experts, weights that are gathered for each step, and
// forward that runs again.
TEST(EqualRecipes, LieInAV) {
  for (const char* text :
       {"gpt:batch=4,layers=4,hidden=32,heads=8,vocab=50,sequence=8,positions=8",
        "mixtral-8x7b:batch=4,layers=4,hidden=16,heads=4,kv_heads=2,vocab=48,sequence=8,ffn=24,"
        "token_groups=4,dtype=float32"}) {
    const EqualityCase c{std::string(text)};
    PlanOptions unsplit;
    unsplit.microbatches = 5;
    Reference reference = c.reference(unsplit);
    for (const std::string schedule : {"zb-v", "dualpipe-v"}) {
      for (const char* recipe : {"tp2,pp2,dp2,mbs2", "tp2,pp2,dp2,sp,mbs2,zero3,recompute=full",
                                 "pp2,dp4,mbs1,zero1,recompute=selective"}) {
        SCOPED_TRACE(std::string(text) + " " + recipe + " " + schedule);
        PlanOptions options = unsplit;
        const RecipeStrategy made = expand_recipe(parse_recipe(std::string(recipe) + ",schedule=" + schedule),
                                                  RecipeModel(c.graph), c.topology);
        made.apply_to(options);
        reference.check(made.strategy, options);
      }
    }
  }
}

// Rings alone and with all that changes what they pass on: masks, orders of positions, groups of heads,
// slopes, learned biases, types, and forward that runs again.
TEST(EqualRecipes, PassKeysRoundRings) {
  int met = 0;
  for (const char* text :
       {"gpt:batch=4,layers=2,hidden=32,heads=8,vocab=50,sequence=16,positions=16",
        "gpt:batch=4,layers=1,hidden=32,heads=8,vocab=50,sequence=16,positions=16,dtype=bfloat16",
        "bert-base:batch=4,layers=1,hidden=32,heads=8,vocab=50,sequence=16,positions=16",
        "bloom-176b:batch=4,layers=1,hidden=32,heads=8,vocab=48,sequence=16,dtype=float32",
        "t5-base:batch=4,layers=1,hidden=16,heads=8,head_width=8,ffn=24,vocab=48,sequence=16,target=16",
        "llama:batch=4,layers=2,hidden=32,heads=8,kv_heads=2,vocab=48,sequence=16,ffn=32",
        "llama:batch=4,layers=1,hidden=32,heads=8,kv_heads=2,vocab=48,sequence=16,ffn=32,zigzag=8",
        "llama:batch=4,layers=1,hidden=32,heads=8,kv_heads=2,vocab=48,sequence=16,ffn=32,zigzag=2"}) {
    const EqualityCase c{std::string(text)};
    const RecipeModel model(c.graph);
    PlanOptions unsplit;
    unsplit.microbatches = 2;
    Reference reference = c.reference(unsplit);
    for (const char* recipe :
         {"cp8,ring,dp1,mbs4", "cp4,ring,dp2,mbs2,recompute=full", "cp8,ulysses=2,ring,dp1,mbs4",
          "tp2,cp4,ring,dp1,mbs4,sp,recompute=selective", "tp2,cp2,ring,dp2,mbs2,zero3"}) {
      if (sanitized && ++met % 3 != 0) continue;  // each recipe and each model, not all pairs
      SCOPED_TRACE(std::string(text) + " " + recipe);
      PlanOptions options = unsplit;
      const RecipeStrategy made = expand_recipe(parse_recipe(recipe), model, c.topology);
      made.apply_to(options);
      ASSERT_TRUE(std::ranges::any_of(made.strategy, &ParallelConfig::ring));
      reference.check(made.strategy, options);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(
    Zoo, EqualRecipes,
    testing::Values(
        EqualModel{"gpt:batch=4,layers=4,hidden=32,heads=8,vocab=50,sequence=8,positions=8", 10},
        EqualModel{"llama:batch=4,layers=4,hidden=32,heads=8,kv_heads=2,vocab=48,sequence=8,ffn=32", 10},
        EqualModel{"llama:batch=4,layers=4,hidden=32,heads=8,kv_heads=2,vocab=48,sequence=8,ffn=32,"
                   "dtype=bfloat16",
                   20},
        EqualModel{"qwen3-8b:batch=4,layers=4,hidden=32,heads=8,head_width=4,kv_heads=2,vocab=48,sequence=16,"
                   "ffn=32,zigzag=4,dtype=float32",
                   10},
        EqualModel{"mixtral-8x7b:batch=4,layers=2,hidden=16,heads=4,kv_heads=2,vocab=48,sequence=8,ffn=24,"
                   "dtype=float32",
                   20},
        EqualModel{"mixtral-8x7b:batch=4,layers=2,hidden=16,heads=4,kv_heads=2,vocab=48,sequence=8,ffn=24,"
                   "token_groups=4,dtype=float32",
                   20},
        EqualModel{"llama3-8b:batch=4,layers=4,hidden=32,heads=8,kv_heads=2,vocab=48,sequence=8,ffn=32,"
                   "loss_chunks=3,dtype=float32",
                   10},
        EqualModel{"llama:batch=4,layers=4,hidden=32,heads=8,kv_heads=2,vocab=48,sequence=8,ffn=32,lora=4",
                   20},
        EqualModel{"mixtral-8x7b:batch=4,layers=2,hidden=16,heads=4,kv_heads=2,vocab=48,sequence=8,ffn=24,"
                   "shared_ffn=8,lora=4,dtype=float32",
                   20},
        EqualModel{
            "gpt:batch=4,layers=4,hidden=32,heads=8,vocab=50,sequence=8,positions=8,loss_chunks=3,lora=4,"
            "lora_targets=query+value,lora_dropout=0.3",
            10},
        EqualModel{"deepseek-v3:batch=4,layers=4,hidden=16,heads=4,head_width=4,rotary_width=4,value_width=4,"
                   "query_latent=8,key_latent=8,ffn=16,expert_ffn=8,dense_layers=1,experts=4,top_k=2,"
                   "router_groups=1,router_top_groups=1,vocab=48,sequence=8,dtype=float32,further_tokens=2",
                   20},
        EqualModel{
            "t5-base:batch=4,layers=2,hidden=16,heads=4,head_width=8,ffn=24,vocab=48,sequence=8,target=8",
            5}),
    [](const auto& instance) {
      const std::string text = instance.param.model;
      const bool groups = text.find("token_groups") != std::string::npos;
      const bool bfloat16 = text.find("bfloat16") != std::string::npos;
      const bool adapters = text.find("lora") != std::string::npos;
      return text.substr(0, std::min(text.find(':'), text.find('-'))) + (groups ? "_groups" : "") +
             (bfloat16 ? "_bfloat16" : "") + (adapters ? "_adapters" : "");
    });

}  // namespace
}  // namespace pipesim
