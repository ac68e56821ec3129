#include "search/baselines/baselines.h"

#include <fmt/format.h>
#include <gmock/gmock.h>

#include <map>

#include "models/graph_builder.h"
#include "models/zoo/zoo.h"
#include "search/baselines/placement.h"
#include "sim/base/errors.h"
#include "topologies/presets/presets.h"

namespace pipesim {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

constexpr const char* kTopologies[] = {"p100-4x4", "k80-16x4", "dgx1-v100", "levels:2@10GB/s,3@1GB/s",
                                       "pcie-v100-4"};

// Every network of the zoo in a size that evaluates in milliseconds.
std::string small(const ZooModel& model) {
  std::string text;
  const auto set = [&](const std::string& key, const std::string& value) {
    for (const ZooOption& o : model.options) {
      if (o.key == key) text += (text.empty() ? ":" : ",") + key + "=" + value;
    }
  };
  set("batch", "64");
  set("steps", "3");
  set("sequence", "32");
  const bool layered = !model.name.starts_with("mlp");
  if (layered) set("layers", "2");
  if (!model.name.starts_with("gpt2")) {
    set("hidden", "192");
    set("heads", "12");
    set("kv_heads", "4");
  }
  set("ffn", "384");
  return model.name + text;
}

std::vector<std::string> small_zoo() {
  std::vector<std::string> texts;
  for (const ZooModel& model : zoo_models()) texts.push_back(small(model));
  return texts;
}

// A baseline's task graph on a topology.
struct ScoredBaseline {
  ScoredBaseline(std::string_view model, std::string_view topology_text, std::string_view baseline)
      : graph(make_zoo_model(model)), topology(make_topology(topology_text)) {
    strategy = baseline_strategy(baseline, graph, costs);
    const BoundStrategy bound = contents.bind(strategy);
    expanded.expand(bound, {.labels = Labels::Make});
  }

  [[nodiscard]] const ParallelConfig& config(const std::string& name) const { return strategy[index(name)]; }
  [[nodiscard]] std::string text(const std::string& name) const {
    return config(name).str(graph.operators()[index(name)]);
  }
  [[nodiscard]] std::size_t index(const std::string& name) const {
    for (std::size_t i = 0; i < graph.operators().size(); ++i) {
      if (graph.operators()[i].name == name) return i;
    }
    throw std::invalid_argument(name);
  }
  [[nodiscard]] std::int64_t count(TaskKind kind) const {
    return std::count_if(tasks.labels.begin(), tasks.labels.end(),
                         [kind](const TaskLabel& l) { return l.kind == kind; });
  }
  /// How many tasks of each collective and group size a kind has: {"all-reduce 4": 12}.
  [[nodiscard]] std::map<std::string, int> traffic(TaskKind kind, const std::string& of) const {
    std::map<std::string, int> counts;
    for (const TaskLabel& l : tasks.labels) {
      if (l.kind != kind || !graph.tensor(l.tensor).name.starts_with(of)) continue;
      ++counts[fmt::format("{} {}", name_of(l.collective), l.group_size)];
    }
    return counts;
  }

  OperatorGraph graph;
  Topology topology;
  CostModel costs{topology};
  PlanContents contents{graph, costs, {}};
  ExpandedStrategy expanded{contents};
  Strategy strategy;
  const TaskGraph& tasks = expanded.graph();
};

TEST(Baselines, Names) {
  EXPECT_THAT(baseline_names(), ElementsAre("single-device", "data-parallel", "model-parallel", "expert"));
}

TEST(Baselines, UnknownNameListsThose) {
  const OperatorGraph graph = make_zoo_model("mlp");
  const Topology topology = make_topology("p100-4x4");
  try {
    baseline_strategy("pipeline", graph, CostModel(topology));
    FAIL();
  } catch (const InputError& error) {
    EXPECT_STREQ(
        error.what(),
        "unknown baseline \"pipeline\", allowed: single-device, data-parallel, model-parallel, expert");
  }
}

TEST(Baselines, LegalForEveryNetworkOnEveryTopology) {
  for (const std::string& model : small_zoo()) {
    const OperatorGraph graph = make_zoo_model(model);
    for (const char* name : kTopologies) {
      const Topology topology = make_topology(name);
      const CostModel costs(topology);
      for (const std::string_view baseline : baseline_names()) {
        const Strategy strategy = baseline_strategy(baseline, graph, costs);
        EXPECT_EQ(illegal(graph, strategy, topology), std::nullopt)
            << model << " on " << name << ", " << baseline;
      }
    }
  }
}

TEST(Baselines, OddBatchesAndTinyOnesAreLegal) {
  const Topology topology = make_topology("p100-4x4");
  const CostModel costs(topology);
  for (const std::int64_t batch : {1, 3, 7, 24}) {
    for (const char* model :
         {"lenet", "mlp", "rnnlm:steps=2,hidden=64,vocab=100", "bert-base:layers=1", "vgg16"}) {
      const std::string text = fmt::format(
          "{}{}batch={}", model, std::string_view(model).find(':') == std::string::npos ? ":" : ",", batch);
      const OperatorGraph graph = make_zoo_model(text);
      for (const std::string_view baseline : baseline_names()) {
        EXPECT_EQ(illegal(graph, baseline_strategy(baseline, graph, costs), topology), std::nullopt)
            << text << ", " << baseline;
      }
    }
  }
}

TEST(Baselines, SingleDeviceTakesTheFastest) {
  const ScoredBaseline s("lenet", "p100-4x4", "single-device");
  EXPECT_EQ(s.text("conv1"), "whole on device 0");
  EXPECT_EQ(idle_devices(s.strategy, s.graph, s.topology), "1 of 16 devices used");
}

// Three K80 and a V100.
TEST(Baselines, FasterDevicesGetMore) {
  TopologyParts parts = make_topology("levels:4@10GB/s").parts();
  parts.kinds.push_back(make_topology("k80-16x4").parts().kinds.front());
  for (const std::size_t slow : {0U, 1U, 3U}) parts.devices[slow].kind = 1;
  const Topology topology(std::move(parts));
  const CostModel costs(topology);
  const OperatorGraph graph = make_zoo_model("resnet50:batch=64");
  EXPECT_EQ(baseline_strategy("single-device", graph, costs)[0].devices, std::vector{DeviceId(2)});
  std::vector<int> operators(4, 0);
  for (const ParallelConfig& c : baseline_strategy("model-parallel", graph, costs))
    ++operators[c.devices[0].index()];
  EXPECT_THAT(operators, testing::Each(testing::Gt(0)));
  EXPECT_EQ(std::max_element(operators.begin(), operators.end()) - operators.begin(), 2);
}

TEST(Baselines, DataParallelMovesNothingButWeightGradients) {
  for (const char* model : {"alexnet:batch=64", "vgg16:batch=64", "rnnlm:batch=64,steps=3",
                            "gpt:batch=64,layers=2,sequence=32"}) {
    const ScoredBaseline s(model, "p100-4x4", "data-parallel");
    EXPECT_EQ(s.count(TaskKind::ForwardTransfer), 0) << model;
    EXPECT_EQ(s.count(TaskKind::BackwardTransfer), 0) << model;
    EXPECT_EQ(s.count(TaskKind::InnerReduce), 0) << model;
    EXPECT_GT(s.count(TaskKind::GradientSync), 0) << model;
  }
}

TEST(Baselines, DataParallelExpertsSplitByGroup) {
  const ScoredBaseline s("mixtral-8x7b:batch=16,layers=1,sequence=32,hidden=192,heads=12,kv_heads=4,ffn=384",
                         "p100-4x4", "data-parallel");
  EXPECT_EQ(s.text("layer1.gate"), "g/16 on 16 devices from 0");
  EXPECT_EQ(s.count(TaskKind::ForwardTransfer) + s.count(TaskKind::BackwardTransfer), 0);
}

TEST(Baselines, SynchronisedBatchNormIsTheOnlyOtherTraffic) {
  const ScoredBaseline s("resnet50:batch=64,image=64", "p100-4x4", "data-parallel");
  EXPECT_EQ(s.count(TaskKind::ForwardTransfer) + s.count(TaskKind::BackwardTransfer), 0);
  EXPECT_EQ(s.count(TaskKind::InnerReduce), 2 * 53);  // 53 norms, one all-reduce each way
}

TEST(Baselines, DevicesThatDoNotDivideTheBatchStayIdle) {
  const ScoredBaseline s("lenet", "levels:2@10GB/s,3@1GB/s", "data-parallel");  // batch 64
  EXPECT_EQ(s.text("conv1"), "n/4 on 4 devices from 0");
  EXPECT_EQ(idle_devices(s.strategy, s.graph, s.topology),
            "4 of 6 devices used: batch 64 can't be split in 6");
}

TEST(Baselines, ProfiledOperatorsSplitTheirSamples) {
  GraphBuilder b("profile", 32);
  TensorId x = b.data("x", {32, 10});
  x = b.add(
      "profiled", "layer1", {x},
      {{"forward_ms", 1.0}, {"backward_ms", 2.0}, {"activation_bytes", 3200}, {"parameter_bytes", 400}});
  b.add("profiled", "layer2", {x},
        {{"forward_ms", 1.0}, {"backward_ms", 2.0}, {"activation_bytes", 3200}, {"parameter_bytes", 400}});
  const OperatorGraph graph = b.build();
  const Topology topology = make_topology("p100-4x4");
  for (const ParallelConfig& c : baseline_strategy("data-parallel", graph, CostModel(topology))) {
    EXPECT_EQ(c.degrees, std::vector<std::int32_t>{16});
  }
}

TEST(Baselines, ModelParallelUsesAllDevicesAndNeverSynchronises) {
  const ScoredBaseline s("vgg16:batch=64", "pcie-v100-4", "model-parallel");
  EXPECT_EQ(s.count(TaskKind::GradientSync), 0);
  EXPECT_EQ(idle_devices(s.strategy, s.graph, s.topology), "");
  std::int32_t last = 0;
  for (const ParallelConfig& c : s.strategy) {
    ASSERT_EQ(c.devices.size(), 1U);
    EXPECT_GE(c.devices[0].value, last);
    last = c.devices[0].value;
  }
}

// Equal layers: 8 of them on 4 devices are 2 each.
TEST(Baselines, ModelParallelBalances) {
  GraphBuilder b("layers", 512);
  TensorId x = b.data("x", {512, 1024});
  for (int i = 0; i < 8; ++i) {
    x = b.add("linear", fmt::format("fc{}", i), {x}, {{"out", std::vector<std::int64_t>{1024}}});
  }
  const OperatorGraph graph = b.build();
  const Topology topology = make_topology("pcie-v100-4");
  const Strategy strategy = baseline_strategy("model-parallel", graph, CostModel(topology));
  std::vector<std::int32_t> devices;
  for (const ParallelConfig& c : strategy) devices.push_back(c.devices[0].value);
  // The first layer computes no gradient for the data, so the busiest device has two of the others.
  EXPECT_THAT(devices, ElementsAre(0, 0, 1, 1, 2, 2, 3, 3));
}

TEST(Baselines, ModelParallelKeepsUnrolledLayersTogether) {
  const ScoredBaseline s("rnnlm:batch=64,steps=4", "p100-4x4", "model-parallel");
  for (const char* op : {"embedding", "lstm1", "lstm2", "projection", "loss"}) {
    for (int step = 2; step <= 4; ++step) {
      EXPECT_EQ(s.config(fmt::format("step{}.{}", step, op)).devices,
                s.config(fmt::format("step1.{}", op)).devices)
          << op;
    }
  }
  EXPECT_NE(s.config("step1.lstm1").devices, s.config("step1.lstm2").devices);
  EXPECT_EQ(s.config("step1.projection").devices, s.config("step1.loss").devices);
  EXPECT_EQ(s.count(TaskKind::GradientSync), 0);
}

TEST(Baselines, ExpertSplitsLargeLinearLayersByOutput) {
  const ScoredBaseline s("vgg16:batch=64", "p100-4x4", "expert");
  EXPECT_EQ(s.text("stage1.layer1.conv"), "n/16 on 16 devices from 0");
  EXPECT_EQ(s.text("linear1"), "o/16 on 16 devices from 0");
  EXPECT_EQ(s.text("classifier"), "b/2 o/8 on 16 devices from 0");  // 16 does not divide 1000 classes
  EXPECT_EQ(s.text("loss"), "b/2 v/8 on 16 devices from 0");
  EXPECT_TRUE(s.traffic(TaskKind::GradientSync, "linear1").empty());
  EXPECT_EQ(s.traffic(TaskKind::GradientSync, "stage5.layer3.conv.b"),
            (std::map<std::string, int>{{"all-reduce 16", 1}}));
}

TEST(Baselines, ExpertLeavesNetworksOfConvolutionsDataParallel) {
  const ScoredBaseline s("resnet50:batch=64,image=64", "p100-4x4", "expert");
  EXPECT_EQ(s.strategy, baseline_strategy("data-parallel", s.graph, s.costs));
}

TEST(Baselines, ExpertPutsLayersOnDevicesAndNodesOnSamples) {
  const ScoredBaseline s("rnnlm:batch=64,steps=3", "p100-4x4", "expert");
  EXPECT_THAT(
      s.config("step2.lstm1").devices,
      ElementsAre(s.config("step1.lstm1").devices[0], DeviceId(s.config("step1.lstm1").devices[0].value + 4),
                  DeviceId(s.config("step1.lstm1").devices[0].value + 8),
                  DeviceId(s.config("step1.lstm1").devices[0].value + 12)));
  EXPECT_THAT(s.text("step1.lstm2"), HasSubstr("n/4 on 4 devices"));
  // Every weight is synchronised over the four nodes, once for all steps; activations stay inside nodes.
  EXPECT_EQ(s.traffic(TaskKind::GradientSync, "lstm1.b"), (std::map<std::string, int>{{"all-reduce 4", 1}}));
  for (const TaskLabel& l : s.tasks.labels) {
    if (l.kind != TaskKind::ForwardTransfer) continue;
    ASSERT_EQ(l.collective, Collective::Send);
    EXPECT_EQ(s.topology.device(l.device).node, s.topology.device(l.peer).node);
  }
}

// Megatron-LM: two all-reduces forward and two backward in every layer, all inside a node.
TEST(Baselines, ExpertIsMegatronForTransformers) {
  const ScoredBaseline s("gpt:batch=64,layers=3,sequence=32", "p100-4x4", "expert");
  EXPECT_EQ(s.text("layer2.attention"), "b/4 g/4 on 16 devices from 0");
  EXPECT_EQ(s.text("layer2.output"), "b/4 i/4 on 16 devices from 0");
  EXPECT_EQ(s.text("layer2.ffn1"), "b/4 o/4 on 16 devices from 0");
  EXPECT_EQ(s.text("layer2.ffn2"), "b/4 i/4 on 16 devices from 0");
  EXPECT_EQ(s.text("layer2.ffn_norm"), "b/4 x4 copies on 16 devices from 0");
  EXPECT_EQ(s.text("word_embedding"), "b/4 v/4 on 16 devices from 0");
  EXPECT_EQ(s.text("projection"), "b/4 o/4 on 16 devices from 0");
  EXPECT_EQ(s.text("position_embedding"), "b/4 x4 copies on 16 devices from 0");
  for (const TaskKind kind : {TaskKind::ForwardTransfer, TaskKind::BackwardTransfer}) {
    EXPECT_EQ(s.traffic(kind, "layer2."),
              (std::map<std::string, int>{{"all-reduce 4", 2 * 4}}));  // in each of 4 nodes
  }
  for (const TaskLabel& l : s.tasks.labels) {
    const bool activations = l.kind == TaskKind::ForwardTransfer || l.kind == TaskKind::BackwardTransfer;
    EXPECT_FALSE(activations && l.collective != Collective::AllReduce) << describe(l, s.graph, s.topology);
  }
  EXPECT_EQ(s.traffic(TaskKind::GradientSync, "layer2.ffn1.w"),
            (std::map<std::string, int>{{"all-reduce 4", 4}}));
}

TEST(Baselines, ExpertTakesFewerDevicesThanHeadsDivide) {
  const ScoredBaseline s("gpt:batch=64,layers=1,sequence=32", "dgx1-v100", "expert");  // 12 heads, 8 devices
  EXPECT_EQ(s.text("layer1.attention"), "b/2 g/4 on 8 devices from 0");
}

// 2 key-value heads on 4 devices: keys and values are copied, query heads split on.
TEST(Baselines, ExpertSplitsGroupedQueries) {
  const ScoredBaseline s("llama:batch=8,layers=1,sequence=32,hidden=256,heads=8,kv_heads=2,ffn=512",
                         "pcie-v100-4", "expert");
  EXPECT_EQ(s.text("layer1.query"), "o/2 o2/2 on 4 devices from 0");
  EXPECT_EQ(s.text("layer1.key"), "o/2 x2 copies on 4 devices from 0");
  EXPECT_EQ(s.text("layer1.attention"), "g/2 r/2 on 4 devices from 0");
  EXPECT_EQ(s.count(TaskKind::ForwardTransfer), 3);  // embedding, attention output, feed-forward output
}

TEST(Baselines, ExpertSplitsHeadsWithTheirBiases) {
  const ScoredBaseline s("t5-base:batch=64,layers=1,sequence=32,target=16", "p100-4x4", "expert");
  for (const char* layer : {"encoder.layer1.self_", "decoder.layer1.self_", "decoder.layer1.cross_"}) {
    EXPECT_EQ(s.text(std::string(layer) + "attention"), "b/4 g/4 on 16 devices from 0") << layer;
  }
}

TEST(Baselines, ExpertSplitsHeadsWithTheirNorms) {
  const ScoredBaseline s(
      "qwen3-8b:batch=16,layers=1,sequence=32,hidden=256,heads=8,kv_heads=4,head_width=64,ffn=512",
      "p100-4x4", "expert");
  EXPECT_EQ(s.text("layer1.query"), "b/4 o/4 on 16 devices from 0");
  EXPECT_EQ(s.text("layer1.query_norm"), "b/4 g/4 on 16 devices from 0");
  EXPECT_EQ(s.text("layer1.key_norm"), "n/4 h/4 on 16 devices from 0");
  EXPECT_EQ(s.text("layer1.attention"), "b/4 g/4 on 16 devices from 0");
  EXPECT_EQ(s.text("layer1.attention_norm"), "b/4 x4 copies on 16 devices from 0");
}

// What all heads share is copied; each device makes the keys of its own heads of it.
TEST(Baselines, ExpertSplitsHeadsThatShareAKey) {
  const ScoredBaseline s(
      "deepseek-v3:batch=16,layers=2,dense_layers=1,sequence=32,hidden=256,heads=8,head_width=32,"
      "rotary_width=16,value_width=32,query_latent=64,key_latent=32,ffn=512,expert_ffn=64,experts=8,"
      "top_k=2,vocab=512",
      "p100-4x4", "expert");
  for (const char* op : {"query_latent", "key_latent", "key_rotary"})
    EXPECT_THAT(s.text(fmt::format("layer1.{}", op)), HasSubstr("x4 copies")) << op;
  EXPECT_EQ(s.text("layer1.query"), "b/4 o/4 on 16 devices from 0");
  EXPECT_EQ(s.text("layer1.query_joined"), "b/4 g/4 on 16 devices from 0");
  EXPECT_EQ(s.text("layer1.key_of_heads"), "n/4 h/4 on 16 devices from 0");
  EXPECT_EQ(s.text("layer1.key_joined"), "n/4 h/4 on 16 devices from 0");
  EXPECT_EQ(s.text("layer1.attention"), "b/4 g/4 on 16 devices from 0");
  EXPECT_EQ(s.text("layer1.output"), "b/4 i/4 on 16 devices from 0");
  EXPECT_EQ(s.text("layer2.gate"), "g/4 e/4 on 16 devices from 0");
  EXPECT_EQ(s.text("layer2.shared_gate"), "b/4 o/4 on 16 devices from 0");
  EXPECT_EQ(s.traffic(TaskKind::ForwardTransfer, "layer1."),
            (std::map<std::string, int>{{"all-reduce 4", 2 * 4}}));
}

TEST(Baselines, ExpertSpreadsExpertsOverANode) {
  const ScoredBaseline s("mixtral-8x7b:batch=16,layers=1,sequence=32,hidden=192,heads=12,kv_heads=4,ffn=384",
                         "p100-4x4", "expert");
  EXPECT_EQ(s.text("layer1.gate"), "g/4 e/4 on 16 devices from 0");
  EXPECT_EQ(s.text("layer1.combine"), "g/4 e/4 on 16 devices from 0");
  EXPECT_EQ(s.text("layer1.router"), "b/4 x4 copies on 16 devices from 0");
}

TEST(Baselines, ExpertOfAnythingElseIsDataParallel) {
  const ScoredBaseline s("mlp", "p100-4x4", "expert");
  EXPECT_EQ(s.strategy, baseline_strategy("data-parallel", s.graph, s.costs));
}

TEST(Baselines, ScoresAreTheEvaluators) {
  const OperatorGraph graph = make_zoo_model("alexnet:batch=64");
  const Topology topology = make_topology("p100-4x4");
  const CostModel costs(topology);
  Evaluator evaluator(graph, costs, {});
  for (const Baseline& b : score_baselines(evaluator)) {
    ASSERT_TRUE(b.scored) << b.name << ": " << b.infeasible;
    EXPECT_EQ(b.infeasible, "");
    EXPECT_EQ(b.scored->evaluation, Evaluator(graph, costs, {}).evaluate(b.scored->plan)) << b.name;
    EXPECT_EQ(b.scored->plan, baseline_strategy(b.name, graph, costs));
  }
}

TEST(Baselines, SayWhatMemoryIsMissing) {
  const OperatorGraph graph = make_zoo_model("gpt3-175b:batch=16");
  const Topology topology = make_topology("p100-4x4");
  const CostModel costs(topology);
  Evaluator evaluator(graph, costs, {});
  const std::vector<Baseline> scores = score_baselines(evaluator);
  for (const Baseline& b : scores) {
    ASSERT_TRUE(b.scored) << b.name;
    EXPECT_FALSE(b.scored->evaluation.feasible()) << b.name;
    EXPECT_THAT(b.infeasible, HasSubstr("has 16 GB")) << b.name;
  }
  EXPECT_THAT(scores[0].infeasible, HasSubstr("node0.gpu0 needs "));
}

// All on one device lacks less in all than the whole model on each device, but far more on one.
TEST(Baselines, TheNearestIsTheOneWhoseFullestDeviceLacksLeast) {
  const OperatorGraph graph = make_zoo_model("gpt3-175b:batch=16");
  const Topology topology = make_topology("dgx-a100:2");
  const CostModel costs(topology);
  Evaluator evaluator(graph, costs, {});
  const std::vector<Baseline> scores = score_baselines(evaluator);
  const Baseline &single = scores[0], &data_parallel = scores[1];
  ASSERT_EQ(single.name, "single-device");
  ASSERT_EQ(data_parallel.name, "data-parallel");
  EXPECT_GT(single.shortage, data_parallel.shortage);
  EXPECT_LT(single.scored->evaluation.overflow, data_parallel.scored->evaluation.overflow);
  const std::vector<Baseline> two{single, data_parallel};
  EXPECT_EQ(nearest_baseline(two)->name, "data-parallel");
  for (const Baseline& b : scores) EXPECT_LE(nearest_baseline(scores)->shortage, b.shortage) << b.name;
  EXPECT_EQ(nearest_baseline({{"none", std::nullopt, "not scored"}}), nullptr);
}

TEST(Baselines, SayWhyDevicesStayIdle) {
  const ScoredBaseline three("gpt:batch=3,layers=1,hidden=64,heads=4,sequence=32,vocab=64", "p100-4x4:1",
                             "data-parallel");
  EXPECT_EQ(idle_devices(three.strategy, three.graph, three.topology),
            "3 of 4 devices used: batch 3 can't be split in 4");
  const ScoredBaseline prime("lenet:batch=61", "dgx-a100:8", "data-parallel");
  EXPECT_EQ(idle_devices(prime.strategy, prime.graph, prime.topology),
            "61 of 64 devices used: batch 61 can't be split in 64");
}

TEST(BaselinesPlacement, LastSplitIsFastest) {
  const OperatorGraph graph = make_zoo_model("mlp:batch=64");
  const Operator& op = graph.operators()[0];
  const FactorIndex b = op.factor("b"), o = op.factor("o");
  std::vector<DeviceId> devices;
  for (int d = 0; d < 8; ++d) devices.emplace_back(d);
  const FactorSplit splits[] = {{o, 2}, {b, 2}, {ShardGrid::replica_axis, 2}};
  const ParallelConfig config = arranged(op, splits, devices);
  EXPECT_EQ(config.str(op), "b/2 o/2 x2 copies on 8 devices from 0");
  const auto at = [&](int copy, int sample, int out) {
    return config.devices[static_cast<std::size_t>(copy * 4 + sample * 2 + out)].value;
  };
  EXPECT_EQ(at(0, 0, 0), 0);
  EXPECT_EQ(at(1, 0, 0), 1);
  EXPECT_EQ(at(0, 1, 0), 2);
  EXPECT_EQ(at(0, 0, 1), 4);
  EXPECT_EQ(at(1, 1, 1), 7);
}

TEST(BaselinesPlacement, SampleFactorsOfOddOperators) {
  GraphBuilder b("odd", 8);
  const TensorId x = b.data("x", {8, 6, 4});
  const TensorId flat = b.add("reshape", "flat", {x}, {{"shape", std::vector<std::int64_t>{48, 4}}});
  const TensorId turned = b.add("transpose", "turned", {flat}, {{"order", std::vector<std::int64_t>{1, 0}}});
  b.add("reduce", "sum", {turned}, {{"axes", std::vector<std::int64_t>{0, 1}}});
  const OperatorGraph graph = b.build();
  const auto name = [&](std::size_t i) {
    const auto f = sample_factor(graph.operators()[i]);
    return f ? graph.operators()[i].factors[static_cast<std::size_t>(*f)].name : "none";
  };
  EXPECT_EQ(name(0), "b");
  EXPECT_EQ(name(1), "b");
  EXPECT_EQ(sample_split(graph.operators()[2], 3).degree, 3);
}

}  // namespace
}  // namespace pipesim
