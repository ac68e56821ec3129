#include "search/recipes/expand_recipe.h"

#include <gmock/gmock.h>

#include <string>

#include "models/zoo/zoo.h"
#include "search/recipes/recipe_of_plan.h"
#include "taskgraph/binding/plan_contents.h"
#include "taskgraph/plan/plan.h"
#include "tests/refusal.h"
#include "tests/search/recipes/random_recipe.h"
#include "tests/seeds.h"
#include "topologies/presets/presets.h"

namespace pipesim {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

const char* const kSmallGpt = "gpt:layers=4,hidden=32,heads=8,vocab=50,sequence=16,positions=16,batch=";
const char* const kSmallLlama =
    "llama:layers=4,hidden=32,heads=8,kv_heads=2,vocab=48,sequence=16,ffn=64,batch=";

struct Expanded {
  OperatorGraph graph;
  RecipeModel model{graph};
  Topology topology;
  Recipe recipe;
  RecipeStrategy made;

  Expanded(const std::string& model_text, const std::string& topology_text, const std::string& text)
      : Expanded(model_text, make_topology(topology_text), parse_recipe(text)) {}
  Expanded(const std::string& model_text, Topology t, const Recipe& r)
      : graph(make_zoo_model(model_text +
                             std::to_string(completed_on(r, t).data * completed_on(r, t).microbatch))),
        topology(std::move(t)),
        recipe(completed_on(r, topology)),
        made(expand_recipe(recipe, model, topology)) {}
  static Recipe completed_on(const Recipe& r, const Topology& t) {
    return completed(r, static_cast<std::int64_t>(t.num_devices()));
  }
  [[nodiscard]] const ParallelConfig& config(const std::string& name) const {
    return made.strategy[find(name)];
  }
  [[nodiscard]] std::string text(const std::string& name) const {
    return config(name).str(graph.operators()[find(name)]);
  }
  [[nodiscard]] std::int32_t stage(const std::string& name) const {
    return made.pipeline->stage_of[find(name)];
  }
  [[nodiscard]] std::size_t find(const std::string& name) const {
    for (std::size_t i = 0; i < graph.operators().size(); ++i) {
      if (graph.operators()[i].name == name) return i;
    }
    throw InternalError("no operator " + name);
  }
};

TEST(ExpandRecipe, TensorParallelIsMegatrons) {
  const Expanded e(kSmallGpt, "p100-4x4:1", "tp4");
  EXPECT_EQ(e.text("layer1.query"), "o/4 on 4 devices from 0");
  EXPECT_EQ(e.text("layer1.attention"), "g/4 on 4 devices from 0");
  EXPECT_EQ(e.text("layer1.output"), "i/4 on 4 devices from 0");
  EXPECT_EQ(e.text("layer1.ffn1"), "o/4 on 4 devices from 0");
  EXPECT_EQ(e.text("layer1.ffn2"), "i/4 on 4 devices from 0");
  EXPECT_EQ(e.text("layer1.ffn_norm"), "x4 copies on 4 devices from 0");
  EXPECT_EQ(e.text("word_embedding"), "v/4 on 4 devices from 0");
  EXPECT_EQ(e.text("projection"), "o/4 on 4 devices from 0");
  EXPECT_EQ(e.text("loss"), "v/4 on 4 devices from 0");
  EXPECT_FALSE(e.made.pipeline);
}

// Where a frozen product makes parts, its adapter's first product is copied and the second makes parts; where
// it contracts parts, the first does, too, and the second is copied.
TEST(ExpandRecipe, TensorParallelDividesAdaptersAsMegatronDoes) {
  const std::string model =
      "llama:lora=2,layers=4,hidden=32,heads=8,kv_heads=4,vocab=48,sequence=16,ffn=64,batch=";
  const Expanded e(model, "p100-4x4:1", "tp4");
  EXPECT_EQ(e.text("layer1.gate"), "o/4 on 4 devices from 0");
  EXPECT_EQ(e.text("layer1.gate_lora_a"), "x4 copies on 4 devices from 0");
  EXPECT_EQ(e.text("layer1.gate_lora_b"), "o/4 on 4 devices from 0");
  EXPECT_EQ(e.text("layer1.query_lora_a"), "x4 copies on 4 devices from 0");
  EXPECT_EQ(e.text("layer1.query_lora_b"), "o/4 on 4 devices from 0");
  for (const char* row : {"layer1.output", "layer1.down"}) {
    EXPECT_EQ(e.text(row), "i/4 on 4 devices from 0");
    EXPECT_EQ(e.text(std::string(row) + "_lora_a"), "i/4 on 4 devices from 0");
    EXPECT_EQ(e.text(std::string(row) + "_lora_b"), "x4 copies on 4 devices from 0");
    EXPECT_EQ(e.text(std::string(row) + "_lora_add"), "x4 copies on 4 devices from 0");
  }
  const Expanded sequence(model, "p100-4x4:1", "tp4,sp");
  EXPECT_EQ(sequence.text("layer1.gate_lora_a"), "s/4 on 4 devices from 0");
  EXPECT_EQ(sequence.text("layer1.down_lora_b"), "s/4 on 4 devices from 0");
  EXPECT_EQ(sequence.text("layer1.down_lora_add"), "s/4 on 4 devices from 0");
  const Expanded dropped("llama:lora_dropout=0.1," + model.substr(6), "p100-4x4:1", "tp4");
  EXPECT_EQ(dropped.text("layer1.gate_lora_dropout"), "x4 copies on 4 devices from 0");
  EXPECT_EQ(dropped.text("layer1.down_lora_dropout"), "h/4 on 4 devices from 0");
  EXPECT_EQ(dropped.text("layer1.down_lora_a"), "i/4 on 4 devices from 0");
}

TEST(ExpandRecipe, SequenceParallelDividesWhatTensorParallelCopies) {
  const Expanded e(kSmallGpt, "p100-4x4:1", "tp2,sp,mbs3");
  EXPECT_EQ(e.recipe.data, 2);
  EXPECT_EQ(e.config("layer1.ffn_norm").degrees, (std::vector<std::int32_t>{2, 2, 1}));
  EXPECT_EQ(e.text("layer1.ffn1"), "b/2 o/2 on 4 devices from 0");
  EXPECT_EQ(e.graph.batch(), 6);
}

TEST(ExpandRecipe, ContextParallelDividesTheSequenceOfAll) {
  const Expanded e(kSmallGpt, "p100-4x4:1", "tp2,cp2,sp");
  EXPECT_EQ(e.text("layer1.query"), "s/2 o/2 on 4 devices from 0");
  EXPECT_EQ(e.text("layer1.attention"), "s/2 g/2 on 4 devices from 0");
  EXPECT_EQ(e.text("layer1.ffn_norm"), "s/4 on 4 devices from 0");
  EXPECT_EQ(e.text("loss"), "s/2 v/2 on 4 devices from 0");
}

TEST(ExpandRecipe, HeadsOfKeysAreCopiedWhereTheyAreFew) {
  const Expanded e(kSmallLlama, "p100-4x4:2", "tp8");
  EXPECT_EQ(e.text("layer1.query"), "o/2 o2/4 on 8 devices from 0");
  EXPECT_EQ(e.text("layer1.attention"), "g/2 r/4 on 8 devices from 0");
  // The copies of a head are beside each other: those of query heads that attend to it.
  const ParallelConfig& key = e.config("layer1.key");
  EXPECT_EQ(key.replicas, 4);
  for (std::int32_t copy = 0; copy < 4; ++copy) {
    for (std::int32_t head = 0; head < 2; ++head)
      EXPECT_EQ(key.devices[static_cast<std::size_t>(copy * 2 + head)], DeviceId(head * 4 + copy));
  }
}

TEST(ExpandRecipe, PipelinesDivideLayers) {
  const Expanded e(kSmallGpt, "p100-4x4:1", "pp4");
  EXPECT_EQ(e.made.pipeline->schedule, "1f1b");
  EXPECT_EQ(e.stage("word_embedding"), 0);
  EXPECT_EQ(e.stage("embedding_dropout"), 0);
  for (std::int32_t layer = 1; layer <= 4; ++layer) {
    EXPECT_EQ(e.stage("layer" + std::to_string(layer) + ".query"), layer - 1);
    EXPECT_EQ(e.config("layer" + std::to_string(layer) + ".query").devices, std::vector{DeviceId(layer - 1)});
  }
  EXPECT_EQ(e.stage("norm"), 3);
  EXPECT_EQ(e.stage("loss"), 3);
}

// Layers that predict further tokens count for no stage, and lie with the loss.
TEST(ExpandRecipe, PipelinesPredictFurtherTokensAtTheirEnd) {
  const Expanded e(
      "deepseek-v3:further_tokens=2,layers=4,hidden=16,heads=4,experts=4,top_k=2,ffn=16,vocab=48,"
      "sequence=8,batch=",
      "p100-4x4:1", "pp4");
  EXPECT_EQ(e.model.num_layers(), 4);
  EXPECT_EQ(e.stage("layer3.attention"), 2);
  for (const char* op :
       {"layer4.attention", "loss", "further1.merge", "further1.attention", "further2.gate", "further2.loss"})
    EXPECT_EQ(e.stage(op), 3) << op;
}

TEST(ExpandRecipe, TheOrderSaysWhoIsNear) {
  const auto devices = [](const char* text, const char* op) {
    return Expanded(kSmallGpt, "p100-4x4:2", text).config(op).devices;
  };
  using D = std::vector<DeviceId>;
  EXPECT_EQ(devices("tp2,pp2", "layer4.ffn1"), (D{DeviceId(4), DeviceId(5), DeviceId(6), DeviceId(7)}));
  // Shards are numbered by samples first.
  EXPECT_EQ(devices("tp2,pp2,order=dp-tp-cp-ep-pp", "layer4.ffn1"),
            (D{DeviceId(4), DeviceId(6), DeviceId(5), DeviceId(7)}));
  EXPECT_EQ(devices("tp2,pp2,order=pp-tp-dp-cp-ep", "layer4.ffn1"),
            (D{DeviceId(1), DeviceId(3), DeviceId(5), DeviceId(7)}));
}

std::vector<std::int64_t> layers(const char* text, std::int64_t count) {
  return divide_layers(parse_recipe(text), count).layers;
}
std::string refused(const char* text, std::int64_t count) {
  return divide_layers(parse_recipe(text), count).error;
}

TEST(DivideLayers, EvenlyOrWithShortEnds) {
  EXPECT_THAT(layers("pp1", 5), ElementsAre(5));
  EXPECT_THAT(layers("pp2,vpp2", 8), ElementsAre(2, 2, 2, 2));
  EXPECT_THAT(layers("pp4", 15), ElementsAre(4, 4, 4, 3));
  EXPECT_THAT(layers("pp4", 14), ElementsAre(3, 4, 4, 3));
  EXPECT_THAT(layers("pp2,vpp4", 6), ElementsAre(0, 1, 1, 1, 1, 1, 1, 0));
  EXPECT_THAT(layers("pp4,first=1", 10), ElementsAre(1, 3, 3, 3));
  EXPECT_THAT(layers("pp4,first=1,last=3", 14), ElementsAre(1, 5, 5, 3));
  EXPECT_THAT(layers("pp2,first=1,last=3", 4), ElementsAre(1, 3));
  EXPECT_THAT(layers("pp2,vpp2,first=3,last=5", 8), ElementsAre(1, 3, 2, 2));
  EXPECT_THAT(layers("pp4,layers=2-4-3-0", 9), ElementsAre(2, 4, 3, 0));
  EXPECT_THAT(layers("pp2,vpp2,layers=3-4", 7), ElementsAre(2, 2, 1, 2));
  // DeepSeek-V3's last stage has one layer, and what follows; a list of all stages is by their order.
  EXPECT_THAT(layers("pp2,vpp2,layers=4-4-4-1", 13), ElementsAre(4, 4, 4, 1));
  // In a V the first group has the first stage and the last.
  EXPECT_THAT(layers("pp2,schedule=zb-v", 8), ElementsAre(2, 2, 2, 2));
  EXPECT_THAT(layers("pp2,schedule=zb-v", 7), ElementsAre(2, 2, 2, 1));
  EXPECT_THAT(layers("pp2,schedule=zb-v", 6), ElementsAre(1, 2, 2, 1));
  EXPECT_THAT(layers("pp3,schedule=zb-v,first=3", 11), ElementsAre(2, 2, 2, 2, 2, 1));
  EXPECT_THAT(layers("pp2,schedule=zb-v,first=3,last=5", 8), ElementsAre(2, 3, 2, 1));
  // Llama 3 405B.
  const std::vector<std::int64_t> llama = layers("pp16,vpp8", 126);
  EXPECT_EQ(llama.size(), 128);
  EXPECT_EQ(llama.front() + llama.back(), 0);
  EXPECT_EQ(std::ranges::count(llama, 1), 126);
}

TEST(DivideLayers, SaysWhyNot) {
  EXPECT_EQ(refused("vpp2", 8), "vpp2 needs pp2 or more");
  EXPECT_EQ(refused("first=2", 8), "first and last need pp2 or more");
  EXPECT_EQ(refused("layers=8", 8), "layers needs pp2 or more");
  EXPECT_EQ(refused("pp2,layers=1-2-3", 6), "layers lists 3 groups, and there are pp2");
  EXPECT_EQ(refused("pp2,layers=1-2", 4), "layers lists 3 layers of 4");
  EXPECT_EQ(refused("pp2,vpp2,layers=1-2-3", 6), "layers lists 3 groups, and there are pp2 of 2 stages");
  EXPECT_EQ(refused("pp3,layers=2-0-2", 4), "stage 1 gets no layer");
  EXPECT_EQ(refused("pp2,layers=2-2,last=2", 4), "layers, and first or last, exclude each other");
  EXPECT_EQ(refused("pp2", 0), "pp2 divides layers, and the model has none that it repeats");
  EXPECT_EQ(refused("pp4", 13), "pp4 makes 4 stages, which 13 layers do not fill evenly");
  EXPECT_EQ(refused("pp4,vpp2", 12), "pp4,vpp2 makes 8 stages, which 12 layers do not fill evenly");
  EXPECT_EQ(refused("pp4,first=1", 9),
            "8 of 9 layers are left for 3 of the pp4 groups, which does not come out even");
  EXPECT_EQ(refused("pp2,first=1,last=1", 3),
            "1 of 3 layers are left for 0 of the pp2 groups, which does not come out even");
  EXPECT_EQ(refused("pp4,vpp2,first=1", 10), "vpp2 does not divide the 3 layers of a group");
  EXPECT_EQ(refused("pp4,first=4", 4), "stage 1 gets no layer");
  EXPECT_EQ(refused("schedule=zb-v", 8), "schedule=zb-v needs pp2 or more");
  EXPECT_EQ(refused("pp4,schedule=zb-v", 12),
            "pp4,schedule=zb-v makes 8 stages, which 12 layers do not fill evenly");
  EXPECT_EQ(refused("pp4,schedule=zb-v,first=1", 10),
            "schedule=zb-v does not divide the 3 layers of a group");
}

TEST(ExpandRecipe, SaysWhyNotAndWhatWouldBePossible) {
  const auto message = [](const char* model, const char* text) {
    return refusal([&] { Expanded(model, "p100-4x4:2", text); });
  };
  EXPECT_EQ(
      message(kSmallGpt, "pp8"),
      "recipe \"pp8,dp1,mbs1\": pp8 makes 8 stages, which 4 layers do not fill evenly; the nearest that is "
      "possible: pp4,dp2,mbs1");
  const std::string thirteen = "gpt:layers=13,hidden=48,heads=6,vocab=50,sequence=16,positions=16,batch=";
  EXPECT_EQ(
      message(thirteen.c_str(), "pp4"),
      "recipe \"pp4,dp2,mbs1\": pp4 makes 4 stages, which 13 layers do not fill evenly; the nearest that is "
      "possible: pp4,dp2,mbs1,first=3,last=2");
  EXPECT_EQ(message(thirteen.c_str(), "pp4,vpp2"),
            "recipe \"pp4,vpp2,dp2,mbs1\": pp4,vpp2 makes 8 stages, which 13 layers do not fill evenly; the "
            "nearest "
            "that is possible: pp4,vpp2,dp2,mbs1,last=1");
  EXPECT_EQ(
      message("gpt:layers=4,hidden=48,heads=6,vocab=50,sequence=16,positions=16,batch=", "tp4"),
      "recipe \"tp4,dp2,mbs1\": tp4 does not divide the 6 heads of \"layer1.attention\"; the nearest that is "
      "possible: tp2,dp4,mbs1");
  EXPECT_EQ(
      message("gpt:layers=4,hidden=32,heads=8,ffn=36,vocab=50,sequence=16,positions=16,batch=", "tp8"),
      "recipe \"tp8,dp1,mbs1\": tp8 does not divide the 36 features of \"layer1.ffn1\"; the nearest that is "
      "possible: tp4,dp2,mbs1");
  EXPECT_EQ(message("gpt:layers=4,hidden=32,heads=8,vocab=50,sequence=12,positions=16,batch=", "tp8,sp"),
            "recipe \"tp8,dp1,sp,mbs1\": 8 parts of the sequence do not divide the 12 positions of "
            "\"word_embedding\"; the nearest that is possible: tp4,dp2,sp,mbs1");
  EXPECT_THAT(message(kSmallGpt, "sp"),
              HasSubstr("sp divides the sequence over tp, and there is no tp; the nearest that "
                        "is possible: dp8,mbs1"));
  EXPECT_THAT(message(kSmallGpt, "recompute=stage"), HasSubstr("recompute=stage needs pp2 or more"));
  EXPECT_THAT(message(kSmallGpt, "pp2,recompute=full:2"),
              HasSubstr("recompute=full:2: no stage has more than 2 layers; recompute=full computes all "
                        "again"));
  EXPECT_THAT(message("lenet:batch=", "recompute=selective"),
              HasSubstr("recompute=selective runs attention again, and model"));
  EXPECT_EQ(message(kSmallGpt, "zero1,shard=3"),
            "recipe \"dp8,mbs1,zero1,shard=3\": shard=3 does not divide the 8 copies of a weight (dp8); the "
            "nearest that is possible: dp8,mbs1,zero1");
  EXPECT_THAT(message(kSmallGpt, "schedule=gpipe"), HasSubstr("schedule needs pp2 or more"));
  EXPECT_THAT(message(kSmallGpt, "messages=beside"), HasSubstr("messages needs pp2 or more"));
  EXPECT_THAT(message(kSmallGpt, "pp2,vpp2,schedule=1f1b"), HasSubstr("vpp2 needs schedule=interleaved"));
  EXPECT_EQ(message(kSmallGpt, "pp4,schedule=zb-v"),
            "recipe \"pp4,dp2,mbs1,schedule=zb-v\": pp4,schedule=zb-v makes 8 stages, which 4 layers do not "
            "fill evenly; the nearest that is possible: pp2,dp4,mbs1,schedule=zb-v");
  EXPECT_EQ(message(kSmallGpt, "pp1,schedule=chimera"),
            "recipe \"dp8,mbs1,schedule=chimera\": schedule needs pp2 or more; the nearest that is possible: "
            "dp8,mbs1");
  EXPECT_THAT(message(kSmallGpt, "pp2,schedule=dualpipe,zero2"),
              HasSubstr("zero2 moves weights or gradients in each microbatch, of which half run on each copy "
                        "under schedule=dualpipe; allowed: zero1, or zero3 with reshard=last"));
  EXPECT_THAT(message(kSmallGpt, "pp2,schedule=dualpipe,zero1,shard=3"),
              HasSubstr("shard=3 does not divide the 8 copies of a weight (dp4 x 2 directions)"));
  EXPECT_EQ(
      message(kSmallGpt, "pp2,vpp1,schedule=zb-v"),
      "recipe \"pp2,vpp1,dp4,mbs1,schedule=zb-v\": schedule=zb-v puts two stages on each group, which vpp1 "
      "does not; the nearest that is possible: pp2,dp4,mbs1");
  EXPECT_THAT(message("resnet50:batch=", "cp2"),
              HasSubstr("cp2 divides a sequence, and the model has no attention"));
  EXPECT_THAT(message("lenet:batch=", "pp2"),
              HasSubstr("pp2 divides layers, and the model has none that it repeats"));
}

// Two directions of four copies each; experts lie in halves on two devices of each direction four times in
// all.
TEST(ExpandRecipe, CopiesOfBothDirectionsDivideState) {
  const OperatorGraph graph = make_zoo_model(
      "mixtral-8x7b:batch=4,layers=2,hidden=64,heads=4,kv_heads=4,ffn=64,vocab=64,sequence=16,experts=4,top_"
      "k=2");
  const Topology topology = make_topology("dgx-a100");
  const CostModel costs(topology);
  PlanOptions options;
  options.microbatches = 4;
  const RecipeStrategy made = expand_recipe(parse_recipe("pp2,dp4,ep2,etp1,mbs1,zero1,schedule=dualpipe"),
                                            RecipeModel(graph), topology);
  made.apply_to(options);
  ASSERT_EQ(illegal(graph, made.strategy, options, topology), std::nullopt);
  const PlanContents contents(graph, costs, options);
  const BoundStrategy bound = contents.bind(made.strategy);
  std::int32_t weights = 0;
  for (std::size_t t = 0; t < graph.tensors().size(); ++t) {
    const Tensor& tensor = graph.tensors()[t];
    if (tensor.kind != TensorKind::Weight) continue;
    ++weights;
    const Layout& state = contents.layouts()[contents.state_of(TensorId(t), bound)];
    for (std::size_t d = 0; d < 8; ++d)
      EXPECT_EQ(state.elements_on(DeviceId(d)), tensor.elements() / 8) << tensor.name;
  }
  EXPECT_GT(weights, 20);
}

TEST(CompletedRecipe, MultipliesUpToTheDevices) {
  EXPECT_EQ(completed(parse_recipe("tp4,pp2"), 64).str(), "tp4,pp2,dp8,mbs1");
  EXPECT_EQ(completed(parse_recipe("dp8,mbs3"), 8).str(), "dp8,mbs3");
  const auto message = [](const char* text, std::int64_t devices) {
    return refusal([&] { (void)completed(parse_recipe(text), devices); });
  };
  EXPECT_EQ(message("tp3", 64), "recipe \"tp3\": tp3 is 3 devices, which do not divide 64 devices");
  EXPECT_EQ(message("tp4,pp2,cp2,dp2", 64),
            "recipe \"tp4,pp2,cp2,dp2\": tp4 x pp2 x cp2 x dp2 is 32 devices, which are not the 64 devices");
  const OperatorGraph graph = make_zoo_model(std::string(kSmallGpt) + "8");
  const RecipeModel model(graph);
  const auto nearest = [&](const char* text) {
    return refusal([&] { (void)completed(parse_recipe(text), 64, &model); });
  };
  EXPECT_EQ(
      nearest("tp3,sp"),
      "recipe \"tp3,sp\": tp3 is 3 devices, which do not divide 64 devices; the nearest that is possible: "
      "tp2,dp32,sp");
  EXPECT_EQ(
      nearest("tp4,pp2,dp2"),
      "recipe \"tp4,pp2,dp2\": tp4 x pp2 x dp2 is 16 devices, which are not the 64 devices; the nearest that "
      "is possible: tp4,pp2,dp8");
}

// Every transformer of the zoo at its default depth.
TEST(RecipeOfPlan, IsTheOneThatItWasMadeFrom) {
  const Topology topology = make_topology("dgx-h100:4");
  for (const char* name : {"gpt", "bert-large", "t5-base", "xlnet36", "llama", "llama3-8b", "mixtral-8x7b",
                           "mixtral-8x22b", "bloom-176b", "qwen3-8b", "qwen3-235b", "deepseek-v3"}) {
    const OperatorGraph graph = make_zoo_model(std::string(name) + ":batch=16");
    const RecipeModel model(graph);
    for_each_seed(4, [&](Rng& rng) {
      const Recipe recipe = random_recipe(model, 32, rng);
      const RecipeStrategy made = expand_recipe(recipe, model, topology);
      PlanOptions options;
      options.microbatches = 8;
      made.apply_to(options);
      EXPECT_EQ(illegal(graph, made.strategy, options, topology), std::nullopt)
          << name << " " << recipe.str();
      const RecognisedRecipe found = recipe_of(made.strategy, options, model, topology);
      EXPECT_TRUE(found.exact()) << name << " " << recipe.str() << " is taken for " << found.str(graph);
      const RecipeStrategy again = expand_recipe(found.recipe, model, topology);
      EXPECT_EQ(again.strategy, made.strategy) << name << " " << recipe.str() << " " << found.recipe.str();
      EXPECT_EQ(again.pipeline, made.pipeline) << name << " " << recipe.str() << " " << found.recipe.str();
    });
  }
}

TEST(RecipeOfPlan, TellsWhatDiffers) {
  Expanded e(kSmallGpt, "p100-4x4:1", "tp4");
  PlanOptions options;
  const auto text = [&] { return recipe_of(e.made.strategy, options, e.model, e.topology).str(e.graph); };
  EXPECT_EQ(text(), "tp4,dp1,mbs1");
  e.made.strategy[e.find("layer2.ffn1")] =
      single_device(e.graph.operators()[e.find("layer2.ffn1")], DeviceId(2));
  EXPECT_EQ(text(),
            "near tp4,dp1,mbs1: 1 of 59 operators are split or placed otherwise, such as layer2.ffn1");
  options.recompute = {Recompute::Kind::Listed, std::vector<std::int32_t>(e.graph.operators().size(), 0)};
  EXPECT_EQ(text(),
            "near tp4,dp1,mbs1: recompute of a list; 1 of 59 operators are split or placed otherwise, such "
            "as layer2.ffn1");
}

}  // namespace
}  // namespace pipesim
