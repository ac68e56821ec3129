#include <fmt/format.h>
#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <string>
#include <tuple>
#include <utility>

#include "models/graph_builder.h"
#include "models/operator_kind.h"
#include "models/zoo/zoo.h"
#include "taskgraph/plan/layer_modules.h"
#include "tests/executor/cpu/tested_kernels.h"
#include "tests/executor/equality_case.h"
#include "tests/models/samples.h"
#include "tests/sim/random_graph.h"
#include "tests/slow_test.h"
#include "tests/taskgraph/random_pipelines.h"
#include "topologies/presets/presets.h"

namespace pipesim {
namespace {

// The strategy, as far as the tested devices can run it.
Strategy runnable(const OperatorGraph& graph, Strategy strategy) {
  const bool rings = make_tested_devices(graph, most_devices)->has_all_kernels();
  return rings ? strategy : without_rings(std::move(strategy));
}

// A random one.
Strategy runnable_strategy(const OperatorGraph& graph, Rng& rng, std::size_t devices, std::int64_t most) {
  return runnable(graph, random_strategy(graph, rng, devices, most));
}

class EqualZoo : public testing::TestWithParam<EqualModel> {};

TEST_P(EqualZoo, ASplitModelComputesWhatTheUnsplitOneDoes) {
  if (is_slow_network(GetParam().model)) GTEST_SKIP() << "a network this large is run without sanitizers";
  const EqualityCase c(GetParam().model);
  const bool in_chunks = std::string(GetParam().model).find("loss_chunks") != std::string::npos;
  if (in_chunks && !make_tested_devices(c.graph, most_devices)->has_all_kernels())
    GTEST_SKIP() << "no GPU kernel computes a loss in chunks";
  Reference reference = c.reference();
  for_each_seed(GetParam().plans, [&](Rng& rng) {
    reference.check(
        runnable_strategy(c.graph, rng, most_devices, static_cast<std::int64_t>(1 + rng.below(8))));
  });
}

INSTANTIATE_TEST_SUITE_P(
    Zoo, EqualZoo,
    testing::Values(
        EqualModel{"mlp:batch=8,layers=2,hidden=16,features=12,classes=8", 50},
        EqualModel{"lenet:batch=8", 40}, EqualModel{"alexnet:batch=2,image=63,classes=10", 3},
        EqualModel{"vgg16:batch=2,image=32,classes=10", 2}, EqualModel{"resnet50:batch=8,image=32", 2},
        EqualModel{"inception-v3:batch=2,image=80", 1},
        EqualModel{"rnnlm:batch=8,steps=3,hidden=8,embedded=8,vocab=24", 20},
        EqualModel{"rnntc:batch=8,steps=3,hidden=8,embedded=8,vocab=24", 10},
        EqualModel{"nmt:batch=8,steps=2,layers=2,hidden=8,embedded=8,vocab=24", 15},
        EqualModel{"gnmt8:batch=8,steps=2,layers=3,hidden=8,embedded=8,vocab=24", 5},
        EqualModel{"amoebanet36:batch=4,image=32,layers=3,filters=16,classes=10", 1},
        EqualModel{"xlnet36:batch=4,layers=1,hidden=16,heads=4,vocab=50,sequence=8", 10},
        EqualModel{
            "t5-base:batch=4,layers=1,hidden=16,heads=4,head_width=8,ffn=24,vocab=48,sequence=8,target=4",
            10},
        EqualModel{"gpt:batch=4,layers=1,hidden=16,heads=4,vocab=50,sequence=8,positions=8", 20},
        EqualModel{"bert-base:batch=4,layers=1,hidden=16,heads=4,vocab=50,sequence=8,positions=8", 15},
        EqualModel{"llama:batch=4,layers=1,hidden=16,heads=4,kv_heads=2,vocab=48,sequence=8,ffn=24", 15},
        EqualModel{"mixtral-8x7b:batch=4,layers=1,hidden=16,heads=4,kv_heads=2,vocab=48,sequence=8,ffn=24,"
                   "dtype=float32",
                   15},
        EqualModel{"bloom-176b:batch=4,layers=1,hidden=16,heads=4,vocab=48,sequence=8,dtype=float32", 10},
        EqualModel{"qwen3-8b:batch=4,layers=1,hidden=16,heads=4,kv_heads=2,head_width=8,vocab=48,sequence=8,"
                   "ffn=24,dtype=float32",
                   10},
        EqualModel{
            "deepseek-v3:batch=4,layers=2,dense_layers=1,hidden=16,heads=4,head_width=4,rotary_width=4,"
            "value_width=8,query_latent=8,key_latent=8,experts=4,top_k=2,ffn=24,expert_ffn=8,vocab=48,"
            "sequence=8,dtype=float32",
            10}),
    [](const auto& instance) {
      const std::string text = instance.param.model;
      std::string word = text.substr(0, text.find(':'));
      std::replace(word.begin(), word.end(), '-', '_');
      return word;
    });

INSTANTIATE_TEST_SUITE_P(
    LossInChunks, EqualZoo,
    testing::Values(
        EqualModel{
            "bert-base:batch=4,layers=1,hidden=16,heads=4,vocab=50,sequence=8,positions=8,loss_chunks=3", 15},
        EqualModel{"llama:batch=4,layers=1,hidden=16,heads=4,kv_heads=2,vocab=49,sequence=8,ffn=24,"
                   "loss_chunks=4",
                   15}),
    [](const auto& instance) {
      const std::string text = instance.param.model;
      return text.substr(0, text.find_first_of(":-"));
    });

// Weights and data have the same names, so both get the same numbers.
TEST(LossInChunks, HasTheLossAndGradientsOfTheProjectionApart) {
  for (const std::string model :
       {"gpt:batch=4,layers=1,hidden=16,heads=4,vocab=50,sequence=8,positions=8",
        "bert-base:batch=4,layers=1,hidden=16,heads=4,vocab=50,sequence=8,positions=8",
        "llama:batch=4,dtype=float32,layers=1,hidden=16,heads=4,kv_heads=2,vocab=48,sequence=8,ffn=24"}) {
    const EqualityCase apart(model), joint(model + ",loss_chunks=5");
    if (!make_tested_devices(joint.graph, most_devices)->has_all_kernels())
      GTEST_SKIP() << "no GPU kernel computes a loss in chunks";
    const auto values = [](const EqualityCase& c) {
      Reference reference = c.reference();
      Strategy strategy;
      for (const Operator& op : c.graph.operators()) strategy.push_back(single_device(op, DeviceId(0)));
      return reference.values_of(strategy, {});
    };
    const auto by_name = [](const EqualityCase& c, const auto& tensors) {
      std::map<std::string, std::vector<float>> named;
      for (const auto& [id, elements] : tensors)
        named[c.graph.tensor(id).name] = std::vector<float>(elements.begin(), elements.end());
      return named;
    };
    const StepValues one = values(apart), other = values(joint);
    const auto expected = by_name(apart, one.gradients), got = by_name(joint, other.gradients);
    ASSERT_EQ(got.size(), expected.size()) << model;
    EXPECT_NEAR(by_name(joint, other.outputs).at("loss").at(0), by_name(apart, one.outputs).at("loss").at(0),
                1e-5)
        << model;
    for (const auto& [name, gradient] : expected) {
      double most = 0, difference = 0;
      for (std::size_t i = 0; i < gradient.size(); ++i) {
        most = std::max(most, std::abs(static_cast<double>(gradient[i])));
        difference = std::max(
            difference, std::abs(static_cast<double>(got.at(name).at(i)) - static_cast<double>(gradient[i])));
      }
      EXPECT_LE(difference, 1e-5 * most + 1e-7) << model << " " << name;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(
    BFloat16, EqualZoo,
    testing::Values(
        EqualModel{"mlp:batch=8,layers=2,hidden=16,features=12,classes=8,dtype=bfloat16", 10},
        EqualModel{"nmt:batch=8,steps=2,layers=2,hidden=8,embedded=8,vocab=24,dtype=bfloat16", 10},
        EqualModel{"gpt:batch=4,layers=2,hidden=16,heads=4,vocab=50,sequence=8,positions=8,dtype=bfloat16",
                   10}),
    [](const auto& instance) {
      const std::string text = instance.param.model;
      return text.substr(0, text.find(':'));
    });

class EveryKind : public testing::TestWithParam<DataType> {};

// Operators beside one another, each on equal inputs: rows of a table, which every split copies exactly. With
// a loss among them the others would get no gradient.
TEST_P(EveryKind, ComputesTheSameHoweverItIsSplit) {
  Bench bench(4, GetParam());
  bench.learned_inputs = true;
  std::set<std::string> without{"cross_entropy", "linear_cross_entropy", "squared_error",
                                "binary_cross_entropy"};
  for (const OperatorKind& kind : operator_kinds()) {
    if (cpu::tested_kernels(kind.name).empty()) without.insert(kind.name);
  }
  add_all_kinds(bench, without);
  const OperatorGraph graph = bench.builder.build();
  const Topology topology = make_topology("p100-4x4:2");
  const CostModel costs(topology);
  const ThreadWorld world(most_devices);
  const LargerRows source(graph);
  Reference reference(graph, costs, world, source);
  // What a query of additive attention gets from its positions cancels, and what the scores get where some
  // are dropped or biased, or few are seen; bfloat16 addends keep 8 bits.
  std::vector<std::string> cancelling;
  for (const Operator& op : graph.operators()) {
    if (op.kind == "bahdanau_attention") cancelling.push_back("gradient of " + op.name + ".x");
    if (op.kind == "scored_attention" || op.kind == "biased_attention" || op.attributes.contains("window"))
      cancelling.push_back("gradient of " + op.name + ".");
  }
  ASSERT_GE(cancelling.size(), 3U);
  const double narrow = make_tested_devices(graph, most_devices)->narrow_error();
  const auto allowed = [&](const std::string& name) {
    if (GetParam() == DataType::Float32) return 1e-5;
    return std::ranges::any_of(cancelling, [&](const std::string& n) { return name.starts_with(n); })
               ? 3e-2
               : narrow;
  };
  // The kind of operator "op67" for "gradient of op67.x107.rows.w", which is of the rows of its input.
  const auto kind_of = [&](const std::string& error) {
    const auto op = std::ranges::find_if(graph.operators(), [&](const Operator& o) {
      return o.name.find('.') == std::string::npos && error.starts_with("gradient of " + o.name + ".");
    });
    return op == graph.operators().end() ? "no operator" : op->kind;
  };
  TensorError largest{"", 0};
  for_each_seed(25, [&](Rng& rng) {
    Strategy strategy = runnable_strategy(graph, rng, most_devices, 8);
    for (std::size_t o = 0; o < strategy.size(); ++o) {
      const Operator& op = graph.op(OperatorId(o));
      const auto statistics = op.attributes.find("statistics");
      const bool local =
          statistics != op.attributes.end() && std::get<std::string>(statistics->second) == "local";
      if (local) strategy[o] = single_device(op, DeviceId(0));  // changes with the split by definition
    }
    const std::vector<TensorError> errors = reference.errors_of_first_step(strategy);
    EXPECT_GT(errors.size(), graph.operators().size());
    for (const TensorError& e : errors) {
      EXPECT_LE(e.error, allowed(e.name)) << e.name << " of " << kind_of(e.name) << ", largest " << e.largest;
      if (e.error > largest.error || std::isnan(e.error)) largest = e;
    }
  });
  // tools/gpu-check reads it.
  fmt::print("largest error of {}: {:.3g} ({})\n", name_of(GetParam()), largest.error, largest.name);
}

INSTANTIATE_TEST_SUITE_P(Types, EveryKind, testing::Values(DataType::Float32, DataType::BFloat16),
                         [](const auto& instance) { return std::string(name_of(instance.param)); });

// Random plans of three microbatches against the unsplit model.
void check_microbatches(const EqualityCase& c, std::uint64_t plans) {
  PlanOptions options;
  options.microbatches = 3;
  Reference reference = c.reference(options);
  for_each_seed(plans, [&](Rng& rng) {
    reference.check(
        runnable_strategy(c.graph, rng, most_devices, static_cast<std::int64_t>(1 + rng.below(8))));
  });
}

class EqualMicrobatches : public testing::TestWithParam<EqualModel> {};

TEST_P(EqualMicrobatches, ASplitModelAddsTheGradientsThatTheUnsplitOneAdds) {
  if (is_slow_network(GetParam().model)) GTEST_SKIP() << "a network this large is run without sanitizers";
  check_microbatches(EqualityCase(GetParam().model), GetParam().plans);
}

INSTANTIATE_TEST_SUITE_P(
    Zoo, EqualMicrobatches,
    testing::Values(EqualModel{"mlp:batch=8,layers=2,hidden=16,features=12,classes=8", 20},
                    EqualModel{"lenet:batch=4", 10}, EqualModel{"resnet50:batch=4,image=32", 2},
                    EqualModel{"rnnlm:batch=4,steps=3,hidden=8,embedded=8,vocab=24", 8},
                    EqualModel{"gpt:batch=4,layers=1,hidden=16,heads=4,vocab=50,sequence=8,positions=8", 10}),
    [](const auto& instance) {
      const std::string text = instance.param.model;
      return text.substr(0, text.find(':'));
    });

class EqualPipelines : public testing::TestWithParam<EqualModel> {};

TEST_P(EqualPipelines, StagesComputeWhatTheUnsplitModelDoes) {
  const EqualityCase c(GetParam().model);
  for_each_seed(GetParam().plans, [&](Rng& rng) {
    const RandomPipeline p = random_pipeline(c.graph, rng, c.topology);
    Reference reference = c.reference(p.options);
    reference.check(p.strategy);
  });
}

INSTANTIATE_TEST_SUITE_P(
    Zoo, EqualPipelines,
    testing::Values(EqualModel{"mlp:batch=8,layers=4,hidden=16,features=12,classes=8", 12},
                    EqualModel{"lenet:batch=4", 8},
                    EqualModel{"rnnlm:batch=4,steps=3,hidden=8,embedded=8,vocab=24", 6},
                    EqualModel{"gpt:batch=4,layers=2,hidden=16,heads=4,vocab=50,sequence=8,positions=8", 8}),
    [](const auto& instance) {
      const std::string text = instance.param.model;
      return text.substr(0, text.find(':'));
    });

// Every second operator of each stage, in segments of up to four.
Recompute every_second(const OperatorGraph& graph, const std::optional<Pipeline>& pipeline) {
  Recompute recompute{Recompute::Kind::Listed,
                      std::vector<std::int32_t>(graph.operators().size(), kNoSegment)};
  std::int32_t next = 0, in_segment = 0;
  for (std::size_t i = 1; i < recompute.segment_of.size(); i += 2) {
    const bool stays =
        i > 1 && in_segment < 4 && (!pipeline || pipeline->stage_of[i] == pipeline->stage_of[i - 2]);
    if (!stays) ++next, in_segment = 0;
    recompute.segment_of[i] = next - 1;
    ++in_segment;
  }
  return recompute;
}

class EqualRecompute : public testing::TestWithParam<EqualModel> {};

// With stages and without; sums of gradients may run in another order than without recomputation.
TEST_P(EqualRecompute, WhatIsRunAgainComputesTheSame) {
  const EqualityCase c(GetParam().model);
  const auto check = [&](const Strategy& strategy, PlanOptions options) {
    Reference reference = c.reference(options);
    for (const Recompute& recompute :
         {Recompute{Recompute::Kind::Full, {}}, every_second(c.graph, options.pipeline),
          Recompute::selective(), parse_recompute("op"), parse_recompute("every:2"),
          with_modules_of(c.graph, parse_recompute("mlp+moe+layernorm+mla_up_proj")),
          with_modules_of(c.graph, parse_recompute("core_attn+moe_act+shared_experts"))}) {
      options.recompute = recompute;
      if (!illegal(c.graph, recompute, options.pipeline)) reference.check(strategy, options);
    }
  };
  for_each_seed(GetParam().plans, [&](Rng& rng) {
    check(runnable_strategy(c.graph, rng, most_devices, 8), {});
    const RandomPipeline p = random_pipeline(c.graph, rng, c.topology);
    check(runnable(c.graph, p.strategy), p.options);
  });
}

INSTANTIATE_TEST_SUITE_P(
    Zoo, EqualRecompute,
    testing::Values(
        EqualModel{"mlp:batch=8,layers=4,hidden=16,features=12,classes=8", 3}, EqualModel{"lenet:batch=4", 1},
        EqualModel{"rnnlm:batch=4,steps=3,hidden=8,embedded=8,vocab=24", 1},
        EqualModel{"nmt:batch=8,steps=2,layers=2,hidden=8,embedded=8,vocab=24", 1},
        EqualModel{"gpt:batch=4,layers=2,hidden=16,heads=4,vocab=50,sequence=8,positions=8", 1},
        EqualModel{"mixtral-8x7b:batch=4,layers=1,hidden=16,heads=4,kv_heads=2,vocab=48,sequence=8,"
                   "ffn=24,dtype=float32",
                   1},
        EqualModel{"llama:batch=4,layers=2,hidden=16,heads=4,kv_heads=2,vocab=48,sequence=8,ffn=24,"
                   "dtype=float32",
                   1},
        EqualModel{"deepseek-v3:batch=4,layers=2,dense_layers=1,hidden=16,heads=2,head_width=8,"
                   "rotary_width=4,value_width=8,query_latent=0,key_latent=8,ffn=24,experts=4,top_k=2,"
                   "expert_ffn=8,vocab=48,sequence=8,dtype=float32",
                   1}),
    [](const auto& instance) {
      const std::string text = instance.param.model;
      return text.substr(0, std::min(text.find(':'), text.find('-')));
    });

// A chain adds nothing up in an order that could change: equal to the bit.
TEST(Recomputed, ValuesAreThoseThatWereFreed) {
  for (const char* model : {"mlp:batch=8,layers=4,hidden=16,features=12,classes=8", "lenet:batch=4"}) {
    const EqualityCase c(model);
    Reference reference = c.reference();
    for_each_seed(4, [&](Rng& rng) {
      RandomPipeline p = random_pipeline(c.graph, rng, c.topology);
      if (rng.below(2) == 0) p.options.pipeline.reset();
      const StepValues kept = reference.values_of(p.strategy, p.options);
      p.options.recompute.kind = Recompute::Kind::Full;
      const StepValues again = reference.values_of(p.strategy, p.options);
      for (const TensorError& e : differences(again, kept, c.graph)) EXPECT_EQ(e.error, 0) << model << e.name;
    });
  }
}

// On one device, whose only list runs in the order that was simulated.
TEST(Recomputed, MemoryIsThatWhichWasPredicted) {
  const OperatorGraph graph = make_zoo_model("mlp:batch=64,layers=12,hidden=64,features=12,classes=8");
  const Topology topology = make_topology("cpu:1");
  const CostModel costs(topology);
  const ThreadWorld world(1);
  const SyntheticSource source(graph);
  Strategy strategy;
  for (const Operator& op : graph.operators()) strategy.push_back(single_device(op, DeviceId(0)));
  std::vector<Bytes> peaks;
  for (const Recompute::Kind kind : {Recompute::Kind::None, Recompute::Kind::Full}) {
    PlanOptions options;
    options.recompute.kind = kind;
    CpuBackend backend(graph, 1, Optimizer::Momentum, unpinned());
    Training training(graph, costs, options, strategy, {backend, source, world.worlds(), world.devices(), 7},
                      [](const TaskDag&, std::span<const TaskId>) { return std::make_unique<RealPace>(); });
    training.step();
    peaks.push_back(training.execution().measured_memory(DeviceId(0)).peak);
    constexpr Bytes loss(4);  // kept until somebody has looked at it
    EXPECT_EQ(peaks.back(), training.predicted_memory()[0].peak + loss);
  }
  EXPECT_LT(peaks[1], peaks[0] - Bytes(5 * 64 * 64 * 4));  // of 12 hidden activations
}

TEST(Microbatches, AreNormalisedEachAlone) {
  GraphBuilder b("normalised", 4);
  const TensorId x = b.data("x", {4, 3, 8, 8});
  const std::vector<std::int64_t> kernel{3, 3}, pad{1, 1}, classes{6}, axes{2, 3};
  const TensorId y =
      b.add("conv2d", "conv", {x}, {{"out", std::int64_t{8}}, {"kernel", kernel}, {"pad", pad}, {"bias", 0}});
  const TensorId n = b.add("batch_norm", "norm", {y}, {{"activation", "relu"}});
  const TensorId mean = b.add("reduce", "average", {n}, {{"axes", axes}, {"mode", "mean"}});
  const TensorId z = b.add("linear", "fc", {mean}, {{"out", classes}});
  b.add("cross_entropy", "loss", {z, b.data("labels", {4}, DataType::Int64)});
  check_microbatches(EqualityCase(b.build()), 25);
}

// What the first steps of an unsplit model compute.
std::vector<StepValues> unsplit_steps(const std::string& model, std::int32_t microbatches) {
  const OperatorGraph graph = make_zoo_model(model);
  const Topology topology = make_topology("cpu:1");
  const CostModel costs(topology);
  const ThreadWorld world(1);
  const SyntheticSource source(graph);
  PlanOptions options;
  options.microbatches = microbatches;
  UnsplitReference reference(graph, costs, options, unpinned(), source, world.worlds(), 7);
  std::vector<StepValues> values;
  for (std::size_t s = 0; s < compared_steps; ++s) {
    reference.step();
    values.push_back(reference.values());
  }
  return values;
}

// Where no operator looks at the whole batch, cutting it changes nothing but the order of sums.
TEST(Microbatches, AddUpToOneBatchOfAllTheirSamples) {
  for (const char* model : {"mlp:layers=2,hidden=16,features=12,classes=8,",
                            "lenet:", "gpt:layers=1,hidden=16,heads=4,vocab=50,sequence=8,positions=8,",
                            "nmt:steps=2,layers=2,hidden=8,embedded=8,vocab=24,"}) {
    const std::string text = model;
    const OperatorGraph graph = make_zoo_model(text + "batch=12");
    const std::vector<StepValues> whole = unsplit_steps(text + "batch=12", 1);
    for (const std::int32_t microbatches : {3, 6}) {
      const std::vector<StepValues> cut =
          unsplit_steps(text + "batch=" + std::to_string(12 / microbatches), microbatches);
      for (std::size_t s = 0; s < compared_steps; ++s) {
        for (const TensorError& e : differences(cut[s], whole[s], graph)) {
          if (e.largest <= 1e-6) continue;  // the bias of attention's keys: its gradient is rounding alone
          EXPECT_LT(e.error, 2e-5) << model << microbatches << " " << e.name;
        }
      }
    }
  }
}

// The first sample of every batch is another one.
class AnotherSample : public TensorSource {
 public:
  explicit AnotherSample(const OperatorGraph& graph) : right_(graph) {}
  void fill(Loaded::Content content, TensorId tensor, const HostPiece& piece,
            const StepContext& step) const override {
    right_.fill(content, tensor, piece, step);
    if (content != Loaded::Content::Data || piece.box[0].begin > 0) return;
    HostPiece first = piece;
    first.box[0].end = 1;
    StepContext other = step;
    ++other.seed;
    right_.fill(content, tensor, first, other);
  }

 private:
  SyntheticSource right_;
};

// The second microbatch is the first one again.
class MicrobatchTwice : public TensorSource {
 public:
  explicit MicrobatchTwice(const OperatorGraph& graph) : right_(graph) {}
  void fill(Loaded::Content content, TensorId tensor, const HostPiece& piece,
            const StepContext& step) const override {
    StepContext other = step;
    if (other.microbatch == 1) other.microbatch = 0;
    right_.fill(content, tensor, piece, other);
  }

 private:
  SyntheticSource right_;
};

class NotEqual : public testing::TestWithParam<std::tuple<const char*, const char*>> {};

TEST_P(NotEqual, ToWhatHasSeenOtherData) {
  const auto& [model, type] = GetParam();
  const EqualityCase c(std::string(model) + ",dtype=" + type);
  const AnotherSample another(c.graph);
  const MicrobatchTwice twice(c.graph);
  PlanOptions options;
  options.microbatches = 3;
  Reference reference = c.reference(options);
  for_each_seed(3, [&](Rng& rng) {
    const Strategy strategy = runnable_strategy(c.graph, rng, most_devices, 8);
    EXPECT_TRUE(UnsplitReference::equal(reference.equality_of(strategy, c.source)));
    EXPECT_FALSE(UnsplitReference::equal(reference.equality_of(strategy, another)));
    EXPECT_FALSE(UnsplitReference::equal(reference.equality_of(strategy, twice)));
  });
}

// The reference has half the gradient, so the plan's looks as if its sum had been formed twice.
TEST_P(NotEqual, WhereAGradientIsTwiceAsLarge) {
  const auto& [model, type] = GetParam();
  const EqualityCase c(std::string(model) + ",dtype=" + type);
  Reference reference = c.reference();
  Rng rng(5);
  const Strategy strategy = runnable_strategy(c.graph, rng, most_devices, 8);
  const std::map<TensorId, StepEquality> equalities = reference.equalities_with_half_a_gradient(strategy);
  EXPECT_GT(equalities.size(), 4U);
  for (const auto& [weight, e] : equalities) {
    EXPECT_FALSE(UnsplitReference::equal(e));
    EXPECT_EQ(e.worst.name, "gradient of " + c.graph.tensor(weight).name);
  }
}

INSTANTIATE_TEST_SUITE_P(
    Zoo, NotEqual,
    testing::Combine(
        testing::Values("mlp:batch=4,layers=2,hidden=16,features=12,classes=8", "lenet:batch=4",
                        "rnnlm:batch=4,steps=3,hidden=8,embedded=8,vocab=24",
                        "gpt:batch=4,layers=2,hidden=16,heads=4,vocab=50,sequence=8,positions=8"),
        testing::Values("float32", "bfloat16")));

}  // namespace
}  // namespace pipesim
