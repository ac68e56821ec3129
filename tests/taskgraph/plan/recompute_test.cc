#include "taskgraph/plan/recompute.h"

#include <gmock/gmock.h>

#include "models/graph_builder.h"
#include "models/zoo/zoo.h"
#include "sim/base/errors.h"
#include "sim/check_schedule.h"
#include "sim/simulate.h"
#include "taskgraph/memory/peak_memory.h"
#include "tests/refusal.h"
#include "tests/taskgraph/expansion.h"

namespace pipesim {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::StartsWith;
using Kind = Recompute::Kind;
using Segments = std::vector<std::int32_t>;
using Sizes = std::vector<std::int64_t>;

// Linears that keep their input for backward, 1 kB each, under weights of 16 kB.
constexpr std::int64_t kActivation = 4 * 64 * 4, kWeight = 64 * 64 * 4;

OperatorGraph linear_chain(std::int32_t layers) {
  GraphBuilder b("chain", 4);
  TensorId x = b.data("x", {4, 64});
  for (std::int32_t l = 0; l < layers; ++l)
    x = b.add("linear", "fc" + std::to_string(l), {x}, {{"out", Sizes{64}}, {"bias", 0}});
  return b.build();
}

PlanOptions recomputing(Recompute recompute) {
  PlanOptions options;
  options.recompute = std::move(recompute);
  return options;
}

std::vector<std::string> names_again(const OperatorGraph& graph, const Recompute& recompute,
                                     const std::optional<Pipeline>& pipeline = {}) {
  const Recomputation recomputation(graph, recompute, pipeline);
  std::vector<std::string> names;
  for (std::size_t i = 0; i < graph.operators().size(); ++i) {
    if (recomputation.again(OperatorId(i))) names.push_back(graph.operators()[i].name);
  }
  return names;
}

Nanoseconds forward_time(const Expansion& e, const std::vector<std::string>& operators) {
  Nanoseconds sum = 0;
  for (const BoundOperator* bound : e.bound) {
    if (std::ranges::find(operators, bound->op->name) == operators.end()) continue;
    for (const Nanoseconds duration : bound->forward.durations) sum += duration;
  }
  return sum;
}

TEST(RecomputeSegments, RunNothingAgainThatNobodyReads) {
  // What fc1 makes enters the other segment, what fc3 makes leaves the model: both are kept as they are.
  EXPECT_THAT(names_again(linear_chain(4), {Kind::Listed, {0, 0, 1, 1}}), ElementsAre("fc0", "fc2"));
  // Outside of a segment, backward of fc2 reads what fc1 makes again.
  EXPECT_THAT(names_again(linear_chain(4), {Kind::Listed, {0, 0, -1, -1}}), ElementsAre("fc0", "fc1"));
  EXPECT_THAT(names_again(linear_chain(4), {Kind::Listed, {-1, -1, -1, 0}}), IsEmpty());
  EXPECT_THAT(names_again(linear_chain(4), {}), IsEmpty());
}

TEST(RecomputeSegments, OfStagesAreAPipelinesStages) {
  const OperatorGraph graph = linear_chain(6);
  const Pipeline pipeline{"gpipe", {0, 0, 0, 1, 1, 1}};
  EXPECT_EQ(recompute_segments(graph, {Kind::Stage, {}}, pipeline), pipeline.stage_of);
  EXPECT_THAT(names_again(graph, {Kind::Stage, {}}, pipeline), ElementsAre("fc0", "fc1", "fc3", "fc4"));
}

TEST(RecomputeSegments, OfFullAreLayers) {
  const OperatorGraph graph = make_zoo_model("gpt:batch=4,layers=2,hidden=16,heads=4,vocab=50,sequence=8");
  const Segments layers = layers_of(graph);
  for (std::size_t i = 0; i < layers.size(); ++i) {
    const std::string& name = graph.operators()[i].name;
    EXPECT_EQ(layers[i], name.starts_with("layer1.")   ? 0
                         : name.starts_with("layer2.") ? 1
                                                       : kNoLayer)
        << name;
  }
  EXPECT_EQ(recompute_segments(graph, {Kind::Full, {}}, {}), layers);
}

TEST(RecomputeSegments, OfFullAreCutByStages) {
  const OperatorGraph graph = make_zoo_model("gpt:batch=4,layers=2,hidden=16,heads=4,vocab=50,sequence=8");
  Pipeline pipeline{"gpipe", {}};
  bool behind = false;  // the second layer's attention, which begins the second stage
  for (const Operator& op : graph.operators()) {
    behind |= op.name == "layer2.attention";
    pipeline.stage_of.push_back(behind ? 1 : 0);
  }
  const Segments layers = layers_of(graph), segments = recompute_segments(graph, {Kind::Full, {}}, pipeline);
  EXPECT_EQ(illegal(graph, {Kind::Full, {}}, pipeline), std::nullopt);
  for (std::size_t i = 0; i < segments.size(); ++i)
    EXPECT_EQ(segments[i], layers[i] < 1 ? layers[i] : 1 + pipeline.stage_of[i]) << graph.operators()[i].name;
}

TEST(RecomputeSegments, AreRunsOfOperatorsWhereNothingIsRepeated) {
  EXPECT_EQ(layers_of(linear_chain(3)), (Segments{kNoLayer, kNoLayer, kNoLayer}));
  EXPECT_EQ(recompute_segments(linear_chain(9), {Kind::Full, {}}, Pipeline{"gpipe", Segments(9, 0)}),
            (Segments{0, 0, 0, 1, 1, 1, 2, 2, 2}));
  EXPECT_EQ(recompute_segments(linear_chain(5), {Kind::Full, {}}, {}), (Segments{0, 0, 1, 1, kKeptSegment}));
  EXPECT_EQ(recompute_segments(linear_chain(1), {Kind::Full, {}}, {}), (Segments{kKeptSegment}));
}

TEST(RecomputeSegments, OfSelectiveAreAttentionOperators) {
  const OperatorGraph graph = make_zoo_model("gpt:batch=4,layers=2,hidden=16,heads=4,vocab=50,sequence=8");
  EXPECT_THAT(names_again(graph, Recompute::selective()),
              ElementsAre("layer1.attention", "layer2.attention"));
}

// Names without their layers, of the layer alone.
std::vector<std::string> of_layer(const OperatorGraph& graph, const char* recompute,
                                  const std::string& layer) {
  std::vector<std::string> names;
  for (const std::string& name : names_again(graph, parse_recompute(recompute))) {
    if (name.starts_with(layer + ".")) names.push_back(name.substr(layer.size() + 1));
  }
  return names;
}

// What Megatron-LM's --recompute-modules runs again: all of a module that backward needs.
TEST(RecomputeSegments, OfModulesAreTheirOperators) {
  const OperatorGraph dense =
      make_zoo_model("llama:batch=2,layers=2,hidden=16,heads=4,kv_heads=2,ffn=24,vocab=50,sequence=8");
  EXPECT_THAT(of_layer(dense, "core_attn", "layer1"), ElementsAre("attention"));
  EXPECT_THAT(of_layer(dense, "mlp", "layer1"), ElementsAre("ffn_norm", "gate", "up", "gated"));
  EXPECT_THAT(of_layer(dense, "mlp", "layer2"), ElementsAre("ffn_norm", "gate", "up", "gated"));
  const OperatorGraph experts = make_zoo_model(
      "deepseek-v3:batch=2,layers=2,dense_layers=1,hidden=16,heads=2,head_width=8,rotary_width=4,value_width="
      "8,"
      "query_latent=8,key_latent=8,ffn=24,experts=4,top_k=2,expert_ffn=8,vocab=50,sequence=8");
  EXPECT_THAT(of_layer(experts, "mlp", "layer1"),
              ElementsAre("ffn_norm", "dense_gate", "dense_up", "dense_gated"));
  EXPECT_THAT(of_layer(experts, "mlp", "layer2"), IsEmpty());
  EXPECT_THAT(of_layer(experts, "moe", "layer2"),
              ElementsAre("router", "router_weights", "dispatch", "gate", "up", "gated", "down",
                          "shared_gate", "shared_up", "shared_gated"));
  EXPECT_THAT(of_layer(experts, "moe_act", "layer2"), ElementsAre("gated"));
  EXPECT_THAT(of_layer(experts, "shared_experts", "layer2"),
              ElementsAre("shared_gate", "shared_up", "shared_gated"));
  EXPECT_THAT(of_layer(experts, "layernorm", "layer2"), ElementsAre("attention_norm", "ffn_norm"));
  EXPECT_THAT(of_layer(experts, "layernorm", "layer1"), ElementsAre("attention_norm"));
  EXPECT_THAT(of_layer(experts, "mla_up_proj", "layer1"),
              ElementsAre("query_norm", "key_norm", "query_position", "query_rotary", "query", "query_joined",
                          "key_rotary", "key_of_heads", "key", "key_joined", "value"));
  EXPECT_THAT(
      *illegal(dense, parse_recompute("mlp+moe_act"), std::nullopt),
      StartsWith("mlp+moe_act runs an activation between products of experts again, and model \"llama"));
}

// By operator, torchtitan keeps results of attention and of every second product; others run again.
TEST(RecomputeSegments, OfOperatorsKeepEverySecondProduct) {
  const OperatorGraph graph =
      make_zoo_model("llama:batch=2,layers=2,hidden=16,heads=4,kv_heads=2,ffn=24,vocab=50,sequence=8");
  EXPECT_THAT(of_layer(graph, "op", "layer1"),
              ElementsAre("attention_norm", "key", "query_rotary", "key_rotary", "output", "attention_add",
                          "ffn_norm", "up", "gated"));
}

// Segments of two layers, of every second layer, in each stage.
TEST(RecomputeSegments, OfLayersCountThemInEachStage) {
  const OperatorGraph graph =
      make_zoo_model("llama:batch=2,layers=5,hidden=16,heads=4,kv_heads=2,ffn=24,vocab=50,sequence=8");
  const Segments layers = layers_of(graph);
  std::vector<std::int32_t> stage_of;
  for (std::size_t i = 0, stage = 0; i < layers.size(); ++i) {
    if (layers[i] == 2) stage = 1;
    stage_of.push_back(static_cast<std::int32_t>(stage));
  }
  const Pipeline pipeline{"1f1b", stage_of};
  const Segments groups = recompute_segments(graph, parse_recompute("uniform:2"), pipeline),
                 every = recompute_segments(graph, parse_recompute("every:2"), pipeline);
  const std::array<std::int32_t, 5> group_of{0, 0, 1, 1, 2},
      every_of{kNoSegment, 0, kNoSegment, 1, kNoSegment};
  for (std::size_t i = 0; i < layers.size(); ++i) {
    if (layers[i] == kNoLayer) continue;
    EXPECT_EQ(groups[i], group_of[static_cast<std::size_t>(layers[i])]) << graph.operators()[i].name;
    EXPECT_EQ(every[i], every_of[static_cast<std::size_t>(layers[i])]) << graph.operators()[i].name;
  }
}

// Each more layer frees what it makes and runs it again; all of them are what Full does.
TEST(RecomputeSegments, OfTheFirstLayersGrowWithTheirNumber) {
  const OperatorGraph graph =
      make_zoo_model("gpt:layers=4,hidden=32,heads=4,vocab=64,sequence=16,positions=16,dropout=0,batch=2");
  const std::vector<std::int32_t> layers = layers_of(graph);
  std::vector<std::int32_t> stage_of;
  for (std::size_t i = 0, stage = 0; i < layers.size(); ++i) {
    if (layers[i] == 2) stage = 1;
    stage_of.push_back(static_cast<std::int32_t>(stage));
  }
  for (const std::optional<Pipeline>& pipeline :
       {std::optional<Pipeline>(), std::optional(Pipeline{"1f1b", stage_of})}) {
    const std::int64_t most = pipeline ? 2 : 4;
    EXPECT_THAT(names_again(graph, Recompute(), pipeline), IsEmpty());
    std::size_t before = 0;
    for (std::int64_t n = 1; n <= most; ++n) {
      const Recompute recompute{.kind = Kind::First, .count = n};
      const Segments segments = recompute_segments(graph, recompute, pipeline);
      EXPECT_EQ(illegal(graph, recompute, pipeline), std::nullopt);
      for (std::size_t i = 0; i < layers.size(); ++i) {
        const bool again = layers[i] != kNoLayer && layers[i] % most < n;
        EXPECT_EQ(segments[i] >= 0, again) << n << " " << graph.operators()[i].name;
      }
      const std::size_t now = names_again(graph, recompute, pipeline).size();
      EXPECT_GT(now, before);
      before = now;
    }
    EXPECT_EQ(recompute_segments(graph, {.kind = Kind::First, .count = most}, pipeline),
              recompute_segments(graph, {Kind::Full, {}}, pipeline));
  }
}

TEST(RecomputeNames, AreReadAndRefused) {
  for (const char* text : {"none", "selective", "full", "stage", "op", "full:4", "uniform:2", "every:3",
                           "mlp", "core_attn+mlp", "moe_act+layernorm+mla_up_proj", "moe+shared_experts"})
    EXPECT_EQ(parse_recompute(text).str(), text);
  EXPECT_EQ(parse_recompute("core_attn"), Recompute::selective());
  EXPECT_EQ(parse_recompute("layernorm+moe_act").str(), "moe_act+layernorm");
  const std::string allowed =
      "allowed: none, selective, full, stage, op; a number of layers: full:4 (the first of each stage), "
      "uniform:4 (groups of so many), every:2; modules with + between them: core_attn, mlp, moe, moe_act, "
      "layernorm, mla_up_proj, shared_experts";
  EXPECT_EQ(refusal([] { (void)parse_recompute("ful"); }),
            "recompute \"ful\": unknown (did you mean \"full\"?), " + allowed);
  EXPECT_EQ(refusal([] { (void)parse_recompute("mlp+"); }),
            "recompute \"mlp+\": unknown (did you mean \"mlp\"?), " + allowed);
  for (const char* text : {"full:0", "every:x", "uniform:", "full:100001"})
    EXPECT_THAT(refusal([&] { (void)parse_recompute(text); }),
                HasSubstr("with a number from 1 to 100000 alone"));
}

TEST(IllegalRecompute, SaysWhy) {
  const OperatorGraph graph = linear_chain(4);
  const auto reason = [&](const Recompute& recompute, const std::optional<Pipeline>& pipeline = {}) {
    return illegal(graph, recompute, pipeline).value_or("legal");
  };
  const Pipeline pipeline{"1f1b", {0, 0, 1, 1}};
  EXPECT_EQ(reason({}), "legal");
  EXPECT_EQ(reason({Kind::Full, {}}, pipeline), "legal");
  EXPECT_EQ(reason({Kind::Stage, {}}, pipeline), "legal");
  EXPECT_EQ(reason({Kind::Stage, {}}),
            "stage keeps the inputs of a pipeline's stages, and there is no pipeline");
  EXPECT_EQ(reason({Kind::Listed, {-1, 0, 1, -1}}, pipeline), "legal");
  EXPECT_EQ(
      reason({Kind::Listed, {-1, 0, 0, -1}}, pipeline),
      "operators \"fc1\" of stage 0 and \"fc2\" of stage 1 are in one segment; a segment lies in one stage");
  EXPECT_EQ(reason({Kind::Listed, {-1, 0}}), "2 operators have a segment or none, the model has 4");
  EXPECT_EQ(reason({Kind::Listed, {-1, 0, 2, 2}}), "segment 1 has no operator");
  EXPECT_EQ(reason(Recompute::selective()), "selective runs attention again, and model \"chain\" has none");
}

TEST(RecomputeTime, IsThatOfForwardOnOneDevice) {
  for (const char* model : {"gpt:batch=4,layers=3,hidden=16,heads=4,vocab=50,sequence=8", "lenet:batch=8"}) {
    const OperatorGraph graph = make_zoo_model(model);
    const Expansion plain(graph, "p100-4x4", {}), again(graph, "p100-4x4", {}, recomputing({Kind::Full, {}}));
    const Timeline timeline = simulate(again.tasks.dag);
    EXPECT_THAT(check_schedule(again.tasks.dag, timeline), IsEmpty());
    const std::vector<std::string> names = names_again(graph, {Kind::Full, {}});
    EXPECT_THAT(names, testing::Not(IsEmpty()));
    EXPECT_EQ(timeline.makespan, simulate(plain.tasks.dag).makespan + forward_time(again, names)) << model;
  }
}

TEST(RecomputeTime, OfEveryMicrobatch) {
  PlanOptions options = recomputing({Kind::Listed, {0, 0, 0, -1}}), plain = options;
  options.microbatches = plain.microbatches = 3;
  plain.recompute = {};
  const Expansion with(linear_chain(4), "p100-4x4", {}, options),
      without(linear_chain(4), "p100-4x4", {}, plain);
  EXPECT_EQ(simulate(with.tasks.dag).makespan,
            simulate(without.tasks.dag).makespan + 3 * forward_time(with, {"fc0", "fc1", "fc2"}));
}

// A segment of fc1 to fc3 between fc0 and fc4.
TEST(RecomputeMemory, IsFreedAfterForwardAndTakenAgain) {
  Expansion e(linear_chain(5), "p100-4x4", {}, recomputing({Kind::Listed, {-1, 0, 0, 0, -1}}));
  const Timeline timeline = simulate(e.tasks.dag);
  const DeviceMemory peak = peak_memory(e.expanded, timeline)[0];
  // The backward of fc4 reads what fc3 makes, so all three run again before it: with what fc0 made and the
  // gradient that fc4 makes, that are four outputs and a gradient.
  EXPECT_EQ(peak.peak, Bytes(3 * 5 * kWeight + 5 * kActivation));
  EXPECT_EQ(peak.at_peak[3], Bytes(4 * kActivation));
  const OperatorTasks& fc4 = e.expanded.tasks_of(OperatorId(4));
  EXPECT_EQ(peak.when, timeline.start[fc4.backward_input.index()]);
  const TaskId again = e.expanded.tasks_of(OperatorId(1)).recompute;
  EXPECT_EQ(timeline.start[again.index()], timeline.end[fc4.forward.index()]);
}

// The activations of a microbatch are those of its segments' inputs, and of one segment's inside.
TEST(RecomputeMemory, OfAChainGrowsWithItsSegments) {
  constexpr std::int32_t kLayers = 16;
  const auto peak = [&](const Recompute& recompute) {
    Expansion e(linear_chain(kLayers), "p100-4x4", {}, recomputing(recompute));
    return peak_memory(e.expanded, simulate(e.tasks.dag))[0].peak.value - 3 * kLayers * kWeight;
  };
  // In the backward of the last layer: 15 inputs of layers (the first reads data), and a gradient.
  EXPECT_EQ(peak({}), 16 * kActivation);
  // Four segments, the last of which is kept. At its backward's start: inputs of segments 1 to 3, three
  // inside segment 3, a gradient. At the third's: inputs of segments 1 and 2, its three inside, two
  // gradients.
  EXPECT_EQ(peak({Kind::Full, {}}), 7 * kActivation);
}

// Bytes that a layer of a model in float16 keeps from forward to backward on one device.
std::int64_t kept_by_a_layer(const std::string& attention, const Recompute& recompute,
                             const std::string& model = "gpt") {
  std::int64_t bytes = 0;
  for (const std::int32_t layers : {5, 3}) {
    Expansion e(
        make_zoo_model(model + ":batch=2,sequence=64,hidden=128,heads=8,vocab=16,dtype=float16,layers=" +
                       std::to_string(layers) + ",attention=" + attention),
        "p100-4x4", {}, recomputing(recompute));
    const DeviceMemory peak = peak_memory(e.expanded, simulate(e.tasks.dag))[0];
    bytes +=
        (layers == 5 ? 1 : -1) * peak.at_peak[static_cast<std::size_t>(MemoryCategory::Activations)].value;
  }
  return bytes / 2;
}

// Korthikanti et al., MLSys 2023, equations 1 and 6: a layer keeps sbh·(34 + 5as/h) bytes, with selective
// recomputation sbh·34. Two of the 34 are masks of dropouts, which are drawn again here; row statistics come
// in addition. What is run again includes attention's result, 2 more of the 34, which they keep.
TEST(RecomputeMemory, OfSelectiveIsTheScores) {
  constexpr std::int64_t kS = 64, kB = 2, kH = 128, kA = 8;
  constexpr std::int64_t kScores = 5 * kA * kS * kS * kB, kSbh = kS * kB * kH;
  constexpr std::int64_t kNorms = 2 * 8 * kS * kB, kSums = 4 * kA * kS * kB;
  EXPECT_EQ(kept_by_a_layer("scores", Recompute()), 32 * kSbh + kScores + kNorms + kSums);
  EXPECT_EQ(kept_by_a_layer("scores", Recompute::selective()), 30 * kSbh + kNorms);
  EXPECT_EQ(kept_by_a_layer("fused", Recompute()), 32 * kSbh + kNorms + kSums);
  EXPECT_EQ(kept_by_a_layer("fused", Recompute::selective()), 30 * kSbh + kNorms);
  const double published = 34.0 * kSbh / (34.0 * kSbh + kScores);
  const double ours = static_cast<double>(kept_by_a_layer("scores", Recompute::selective())) /
                      static_cast<double>(kept_by_a_layer("scores", Recompute()));
  EXPECT_NEAR(ours, published, 0.10 * published);
  // With its masks Megatron-LM keeps all 34; fused attention keeps its result in two orders, 2 more.
  EXPECT_EQ(kept_by_a_layer("scores,kept=megatron", Recompute()), 34 * kSbh + kScores + kNorms + kSums);
  EXPECT_EQ(kept_by_a_layer("fused,kept=megatron", Recompute()), 36 * kSbh + kNorms + kSums);
}

// transformers/models/llama/modeling_llama.py, LlamaRMSNorm: the float32 copy of x is kept by its square, and
// the rows in the model's type by their product with gamma. In one kernel, x is kept as it is.
TEST(RecomputeMemory, OfNormsKernelByKernelIsTheirInputsInFloat32) {
  constexpr std::int64_t kSbh = 64 * 2 * 128, kNorms = 2;
  const auto kept = [](const std::string& how) {
    return kept_by_a_layer("fused,kv_heads=8,kept=" + how, Recompute(), "llama");
  };
  EXPECT_EQ(kept("torch-eager") - kept("torch"), kNorms * (4 + 2 - 2) * kSbh);
  EXPECT_EQ(kept("torch-eager,lora=2") - kept("torch,lora=2"), kNorms * (4 - 2) * kSbh);
  // Each of two adapters keeps what its dropout leaves, and a mask, in place of the norm's result for both.
  const std::string two = "torch-eager,lora=2,lora_targets=query+value";
  EXPECT_EQ(kept(two + ",lora_dropout=0.1") - kept(two), (2 * (2 + 1) - 2) * kSbh);
  const auto again = [](const std::string& how) {
    return kept_by_a_layer("fused,kv_heads=8,kept=" + how, {Recompute::Kind::Full, {}}, "llama");
  };
  EXPECT_EQ(again("torch-eager"), again("torch"));
}

// Frozen products in 4 bits keep nothing, or what they read (bitsandbytes up to 0.43.1): results of both
// norms and the product with the gate, which the last product reads. Attention keeps its result anyway.
TEST(RecomputeMemory, OfFrozenProductsIsTheirInputsWithOldBitsandbytes) {
  constexpr std::int64_t kSbh = 64 * 2 * 128, kWidths = 4;  // of the feed-forward part
  const std::string adapted =
      "fused,kv_heads=8,ffn=512,kept=torch-eager,lora=2,lora_targets=query+value,"
      "lora_dropout=0.1,base=4bit";
  const auto kept = [](const std::string& how) { return kept_by_a_layer(how, Recompute(), "llama"); };
  EXPECT_EQ(kept(adapted + ",base_inputs=kept") - kept(adapted), (2 * 2 + 2 * kWidths) * kSbh);
}

// torchtitan/distributed/activation_checkpoint.py, the option "op": a layer keeps its input, the results of
// its first, third, fifth and seventh product, and attention's result with the sums of its rows. The seventh
// is the last one of the feed-forward part, whose result nothing reads in backward.
TEST(RecomputeMemory, OfOperatorsIsWhatTheirPolicyStores) {
  constexpr std::int64_t kSb = 64 * 2, kH = 128, kOwn = 2, kWidth = 16, kFfn = 96, kHeads = 8;
  for (const char* how : {"torch", "torch-compile"}) {
    EXPECT_EQ(kept_by_a_layer(fmt::format("fused,kv_heads={},ffn={},kept={}", kOwn, kFfn, how),
                              {Recompute::Kind::Operators, {}}, "llama"),
              2 * kSb * (kH + kH + kOwn * kWidth + kH + kFfn + kH) + 4 * kHeads * kSb)
        << how;
  }
}

// Each operation of eager PyTorch keeps its inputs: the gate's product, its silu, the other half and their
// product. Compiled, silu is made again.
TEST(RecomputeMemory, OfACompiledGateIsItsProducts) {
  constexpr std::int64_t kSb = 64 * 2, kFfn = 96;
  const auto kept = [](const std::string& how) {
    return kept_by_a_layer("fused,kv_heads=8,ffn=96,kept=" + how, Recompute(), "llama");
  };
  EXPECT_EQ(kept("torch") - kept("torch-compile"), 2 * kSb * kFfn);
  EXPECT_EQ(kept("torch"), kept("once"));
}

// In litgpt, values are a view of one tensor with queries and keys, as these were before they were rotated.
// Compiled, or repeated for more query heads, they are tensors of their own.
TEST(RecomputeMemory, OfValuesThatAreAViewIsAllOfTheirTensor) {
  constexpr std::int64_t kSbh = 64 * 2 * 128;
  const auto more = [](const std::string& how) {
    const auto kept = [&](const std::string& qkv) {
      return kept_by_a_layer("fused,qkv=" + qkv + "," + how, Recompute(), "llama");
    };
    return kept("fused") - kept("separate");
  };
  for (const char* how : {"torch", "torch-eager"}) {
    EXPECT_EQ(more(std::string("kv_heads=8,kept=") + how), 2 * 2 * kSbh) << how;
  }
  for (const char* how :
       {"kv_heads=8,kept=torch-compile", "kv_heads=8,kept=megatron", "kv_heads=2,kept=torch-eager"})
    EXPECT_EQ(more(how), 0) << how;
}

// LlamaSdpaAttention repeats keys and values for each of the query heads that share them.
TEST(RecomputeMemory, OfAttentionKernelByKernelIsRepeatedKeysAndValues) {
  constexpr std::int64_t kSb = 64 * 2, kSbh = kSb * 128, kWidth = 16, kHeads = 8;
  for (const std::int64_t own : {1, 2, 4}) {
    const auto kept = [&](const std::string& how) {
      return kept_by_a_layer(fmt::format("fused,kv_heads={},kept={}", own, how), Recompute(), "llama");
    };
    EXPECT_EQ(kept("torch-eager") - kept("torch"), 2 * 4 * kSbh + 2 * 2 * (kHeads - own) * kWidth * kSb);
  }
}

// Each word's score takes 6 bytes: Megatron-LM's loss keeps 4, and the scores, or their gradients, are 2.
TEST(RecomputeMemory, OfALossThatKeepsItsSoftmax) {
  constexpr std::int64_t kRows = 2 * 64, kWords = 4096;
  const auto peak = [](const std::string& kept) {
    Expansion e(
        make_zoo_model("gpt:batch=2,sequence=64,hidden=16,heads=1,layers=1,vocab=4096,dtype=float16,kept=" +
                       kept),
        "p100-4x4", {}, {});
    const DeviceMemory most = peak_memory(e.expanded, simulate(e.tasks.dag))[0];
    return most.at_peak[static_cast<std::size_t>(MemoryCategory::Activations)].value +
           most.at_peak[static_cast<std::size_t>(MemoryCategory::ActivationGradients)].value;
  };
  const std::int64_t kept = peak("megatron"), once = peak("once");
  EXPECT_GE(kept, 6 * kRows * kWords);
  EXPECT_LT(kept, 7 * kRows * kWords);
  EXPECT_GE(once, 4 * kRows * kWords);
  EXPECT_LT(once, 5 * kRows * kWords);
}

// Huang et al. 2019, section 2.3: a stage keeps what enters it of all microbatches, and all else of one.
TEST(RecomputeMemory, OfAPipelineIsItsInputsAndOneMicrobatch) {
  constexpr std::int32_t kStages = 4, kLayers = 6, kMicrobatches = 8, kAtHand = 3;
  const OperatorGraph graph = linear_chain(kStages * kLayers);
  const Topology topology = make_topology("p100-4x4:1");
  const CostModel costs(topology);
  for (const Kind kind : {Kind::None, Kind::Stage}) {
    PlanOptions options = recomputing({kind, {}});
    options.microbatches = kMicrobatches;
    options.pipeline = Pipeline{"gpipe", {}};
    Strategy strategy;
    for (std::int32_t i = 0; i < kStages * kLayers; ++i) {
      options.pipeline->stage_of.push_back(i / kLayers);
      strategy.push_back(single_device(graph.operators()[0], DeviceId(i / kLayers)));
    }
    const PlanContents contents(graph, costs, options);
    const BoundStrategy bound = contents.bind(strategy);
    ExpandedStrategy expanded(contents);
    const TaskGraph& tasks = expanded.graph();
    expanded.expand(bound);
    const Timeline timeline = simulate(tasks.dag);
    EXPECT_THAT(check_schedule(tasks.dag, timeline), IsEmpty());
    const std::vector<DeviceMemory> peaks = peak_memory(expanded, timeline);
    for (std::size_t s = 1; s < kStages; ++s) {  // data that the first stage reads are not counted
      const std::int64_t kept = peaks[s].peak.value - 3 * kLayers * kWeight;
      const std::int64_t least = kind == Kind::None ? kMicrobatches * kLayers : kMicrobatches + kLayers - 1;
      EXPECT_GE(kept, least * kActivation) << "stage " << s;
      EXPECT_LE(kept, (least + kAtHand) * kActivation) << "stage " << s;
    }
  }
}

// Two devices share a layer's columns: its addends are summed once more for the second run.
TEST(RecomputeTransfers, AreRunAgain) {
  const Split columns{{{"o", 2}}, {0, 1}}, rows{{{"i", 2}}, {0, 1}}, copies{{}, {0, 1}, 2};
  const std::map<std::string, Split> splits{{"fc0", columns}, {"fc1", rows}, {"fc2", columns}, {"fc3", rows}};
  const Expansion plain(linear_chain(4), "p100-4x4", splits);
  const Expansion again(linear_chain(4), "p100-4x4", splits, recomputing({Kind::Listed, {0, 0, 0, -1}}));
  EXPECT_EQ(again.bytes_of(TaskKind::ForwardTransfer), plain.bytes_of(TaskKind::ForwardTransfer));
  EXPECT_EQ(again.bytes_of(TaskKind::RecomputeTransfer), 2 * 4 * 64 * 4);  // an all-reduce of what fc1 makes
  EXPECT_EQ(again.bytes_of(TaskKind::BackwardTransfer), plain.bytes_of(TaskKind::BackwardTransfer));
}

}  // namespace
}  // namespace pipesim
