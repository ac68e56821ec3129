// Layers of models that do not say what they repeat, as files of other programs don't.
#include <gmock/gmock.h>

#include <string>

#include "models/zoo/zoo.h"
#include "search/recipes/expand_recipe.h"
#include "taskgraph/plan/repeated_blocks.h"
#include "tests/search/recipes/random_recipe.h"
#include "tests/seeds.h"
#include "tests/slow_test.h"
#include "topologies/presets/presets.h"

namespace pipesim {
namespace {

using testing::Each;
using testing::ElementsAre;

// The same model with names that say nothing.
OperatorGraph unlabelled(const OperatorGraph& graph, Rng& rng) {
  std::vector<Tensor> tensors(graph.tensors().begin(), graph.tensors().end());
  std::vector<Operator> operators(graph.operators().begin(), graph.operators().end());
  std::size_t number = 0;
  const auto name = [&] { return "n" + std::to_string(rng.below(1000)) + "_" + std::to_string(number++); };
  for (Tensor& t : tensors) t.name = name();
  for (Operator& op : operators) op.name = name(), op.repeat.clear();
  return OperatorGraph(graph.name(), graph.batch(), std::move(tensors), std::move(operators));
}

// Every transformer of the zoo at its default depth.
SLOW_TEST(UnlabelledLayers, GiveTheSamePlans) {
  const Topology topology = make_topology("dgx-h100:4");
  for (const char* name :
       {"gpt", "gpt3-760m", "bert-base", "bert-large", "t5-base", "xlnet36", "llama", "llama3-8b",
        "llama3-70b", "mixtral-8x7b", "mixtral-8x7b:token_groups=2", "mixtral-8x22b", "bloom-176b",
        "qwen3-8b", "qwen3-235b", "deepseek-v3", "llama3-405b", "gpt3-175b",
        // Layers of several kinds are layers by themselves, and those of a tower are none.
        "decoder:layers=24,mixers=WF,window=1024",
        "decoder:layers=24,mixers=W5F,window=1024,window_kv_heads=8", "decoder:layers=16,mixers=D3F,ffns=E",
        "decoder:layers=8,vision_words=256,vision_layers=6"}) {
    SCOPED_TRACE(name);
    const bool options = std::string(name).find(':') != std::string::npos;
    const OperatorGraph graph = make_zoo_model(std::string(name) + (options ? "," : ":") + "batch=16");
    const RecipeModel labelled(graph);
    ASSERT_GT(labelled.num_layers(), 1);
    for_each_seed(2, [&](Rng& rng) {
      const OperatorGraph bare = unlabelled(graph, rng);
      const RecipeModel model(bare);
      EXPECT_EQ(model.layer_of(), labelled.layer_of());
      for (int i = 0; i < 3; ++i) {
        const Recipe recipe = random_recipe(labelled, 32, rng);
        SCOPED_TRACE(recipe.str());
        ASSERT_EQ(model.illegal(recipe), std::nullopt);
        const RecipeStrategy expected = expand_recipe(recipe, labelled, topology),
                             made = expand_recipe(recipe, model, topology);
        EXPECT_EQ(made.strategy, expected.strategy);
        EXPECT_EQ(made.pipeline, expected.pipeline);
      }
    });
  }
}

TEST(UnlabelledLayers, AreNoneWhereNothingRepeats) {
  Rng rng(1);
  for (const char* name : {"lenet", "resnet50", "inception-v3", "gpt:layers=1"}) {
    const std::vector<std::int32_t> blocks = repeated_blocks(unlabelled(make_zoo_model(name), rng));
    EXPECT_THAT(blocks, Each(-1)) << name;
  }
}

}  // namespace
}  // namespace pipesim
