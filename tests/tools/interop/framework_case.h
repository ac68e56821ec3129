#pragma once

#include <gtest/gtest.h>
#include <algorithm>
#include <array>
#include <iterator>
#include <string>
#include <string_view>
#include <vector>

#include "tests/search/recipes/random_recipe.h"
#include "tests/seeds.h"
#include "tools/analysis/inputs/model_and_topology.h"
#include "tools/interop/framework/framework.h"
#include "tools/interop/frameworks.h"
#include "topologies/presets/presets.h"

namespace pipesim {

/// Small decoders, one of each kind, whose sizes most degrees of eight devices divide.
inline constexpr const char* kSmallDecoders[] = {
    "gpt:batch=8,sequence=32,layers=8,hidden=64,heads=8,vocab=512,dtype=float16,dropout=0.25",
    "llama:batch=8,sequence=32,layers=8,hidden=64,heads=8,kv_heads=4,ffn=128,vocab=512",
    "qwen3-8b:batch=8,sequence=64,layers=4,hidden=64,heads=8,head_width=16,kv_heads=8,ffn=128,vocab=512,"
    "projection=tied,attention_bias=qkv",
    "mixtral-8x7b:batch=8,sequence=32,layers=4,hidden=64,heads=8,kv_heads=8,ffn=128,vocab=512,shared_ffn=64",
    "deepseek-v3:batch=8,sequence=32,layers=4,hidden=64,heads=8,head_width=16,rotary_width=8,value_width=16,"
    "query_latent=32,key_latent=16,dense_layers=1,router_groups=2,router_top_groups=2,ffn=128,expert_ffn=32,"
    "experts=8,top_k=2,vocab=512"};

/// Optimizers with the states that frameworks keep.
inline constexpr const char* kOptimizers[] = {"sgd",
                                              "momentum",
                                              "adam",
                                              "lion",
                                              "muon",
                                              "adam,moments=bfloat16",
                                              "adam,moments=bfloat16,main=none",
                                              "adam,moments=bfloat16,main=bfloat16",
                                              "adam,moments=float8+float16,main=float16",
                                              "adam,moments=bfloat16,main=remainder"};

/// A recipe of the model as frameworks see it, with so many microbatches.
inline FrameworkPlan framework_plan(const std::string& model, const Recipe& recipe, const Topology& topology,
                                    std::int64_t microbatches = 8) {
  FrameworkPlan plan;
  plan.recipe = recipe;
  plan.model = model;
  plan.sizes = decoder_sizes(model);
  plan.layers = divide_layers(recipe, plan.sizes.layers).layers;
  plan.samples = recipe.data * recipe.microbatch * microbatches;
  plan.hosts = hosts_of(topology);
  return plan;
}

/// The plan for a version of the framework.
inline FrameworkPlan with_version(FrameworkPlan plan, std::string_view framework, std::string_view name) {
  plan.version = *std::ranges::find(framework_named(framework).versions(), name, &FrameworkVersion::name);
  return plan;
}

/// The strategies of two recipes are the same, whatever they are called.
inline void expect_same_plan(const Recipe& one, const Recipe& other, const RecipeModel& model,
                             const Topology& topology) {
  const RecipeStrategy a = expand_recipe(one, model, topology), b = expand_recipe(other, model, topology);
  EXPECT_EQ(a.strategy, b.strategy);
  const auto said = [](std::optional<Pipeline> pipeline) {
    if (pipeline && !pipeline->messages)
      pipeline->messages = usual_messages(MessageOverlap::UnlessPlain, pipeline->schedule);
    return pipeline;
  };
  EXPECT_EQ(said(a.pipeline), said(b.pipeline));
  EXPECT_EQ(a.recompute, b.recompute);
  // Where nothing divides the sequence, nothing is gathered.
  const bool gathers = one.sequence_parallel || one.context > 1;
  EXPECT_TRUE(!gathers || a.gathered_inputs == b.gathered_inputs);
  const auto whole = [&](StateSharding sharding, const Recipe& recipe) {
    if (sharding.group >= recipe.data * recipe.context) sharding.group = 0;
    return sharding;
  };
  EXPECT_EQ(whole(a.state_sharding, one), whole(b.state_sharding, other));
}

/// Random legal recipes of every small decoder on eight devices. `check` gets those that the framework can
/// express, and in place of each other one the nearest that it can express, if any.
template <class Check>
void for_random_plans(const Framework& framework, std::uint64_t seeds, Check check,
                      const std::vector<const char*>& models = {std::begin(kSmallDecoders),
                                                                std::end(kSmallDecoders)}) {
  const Topology topology = make_topology("dgx-a100:1");
  int as_they_are = 0, amended = 0;
  for (const char* text : models) {
    const OperatorGraph graph = open_model(text);
    const RecipeModel model(graph);
    for_each_seed(seeds, [&](Rng& rng) {
      Recipe recipe = random_recipe(model, 8, rng);
      if (recipe.tensor > 1 && rng.below(3) == 0) recipe.tensor_overlap = true;
      if (recipe.pipeline > 1 && rng.below(3) == 0)
        recipe.messages = rng.below(2) == 0 ? StageMessages::Beside : StageMessages::Blocking;
      // There are eight microbatches, as in framework_plan().
      if (const auto together = recipe.pipeline + 1 + static_cast<std::int64_t>(rng.below(5));
          recipe.schedule_name() == "interleaved" && together <= 8 &&
          (8 % together == 0 || 8 % together >= recipe.pipeline))
        recipe.schedule = fmt::format("interleaved-groups:{}", together);
      const testing::ScopedTrace trace(__FILE__, __LINE__, std::string(text) + " " + recipe.str());
      FrameworkPlan plan = framework_plan(text, recipe, topology);
      constexpr std::array types{DataType::Float32, DataType::Float16, DataType::BFloat16};
      plan.gradient_type = rng.below(2) == 0 ? DataType::Float32 : types[rng.below(types.size())];
      plan.optimizer = parse_optimizer(kOptimizers[rng.below(std::size(kOptimizers))]);
      const Refusals refusals = framework.refusals(plan);
      if (!refusals.empty()) {
        for (const Refusal& refusal : refusals) EXPECT_FALSE(refusal.part.empty() || refusal.reason.empty());
        const auto nearest = nearest_expressible(framework, plan, refusals, model);
        if (!nearest) return;
        EXPECT_TRUE(framework.refusals(*nearest).empty());
        EXPECT_EQ(model.illegal(nearest->recipe), std::nullopt);
        EXPECT_EQ(nearest->recipe.devices(), 8);
        EXPECT_EQ(nearest->samples, plan.samples);
        plan = *nearest;
      }
      ++(refusals.empty() ? as_they_are : amended);
      check(plan, model, topology);
    });
  }
  constexpr int kEnough = 10;
  EXPECT_GT(as_they_are + amended, kEnough);
}

/// What a framework, or a version of it, refuses of a recipe on eight devices: a line "part: reason" for
/// each.
inline std::string refusals_text(std::string_view framework, const std::string& model,
                                 const std::string& recipe, std::string_view version = "") {
  FrameworkPlan plan = framework_plan(model, parse_recipe(recipe), make_topology("dgx-h100:1"));
  if (!version.empty()) plan = with_version(plan, framework, version);
  std::string text;
  for (const Refusal& r : framework_named(framework).refusals(plan)) text += r.part + ": " + r.reason + "\n";
  return text;
}

}  // namespace pipesim
