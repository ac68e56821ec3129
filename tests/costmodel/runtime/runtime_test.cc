#include "costmodel/runtime/runtime.h"

#include <gmock/gmock.h>

#include "costmodel/cost_model.h"
#include "costmodel/shard_kernel.h"
#include "models/graph_builder.h"
#include "models/zoo/zoo.h"
#include "tests/refusal.h"
#include "topologies/presets/presets.h"

namespace pipesim {
namespace {

using testing::AllOf;
using testing::HasSubstr;

std::string why_refused(std::string_view text) {
  return refusal([&] { parse_runtime(text); });
}

TEST(Runtime, OfPipesimIsTheDefault) {
  EXPECT_EQ(parse_runtime("pipesim"), Runtime());
  EXPECT_EQ(runtime_presets().front().runtime, Runtime());
  EXPECT_FALSE(Runtime().has_host());
}

TEST(Runtime, ReadsBackFromItsName) {
  for (const RuntimePreset& preset : runtime_presets())
    EXPECT_EQ(parse_runtime(preset.runtime.name), preset.runtime) << preset.runtime.name;
  const Runtime changed = parse_runtime("megatron:module=55us,flash=2,overlap=always,update=1.5");
  EXPECT_EQ(changed.host.module, Seconds(55e-6));
  EXPECT_EQ(changed.host.kernel, parse_runtime("megatron").host.kernel);
  EXPECT_EQ(changed.flash_attention, 2);
  EXPECT_EQ(changed.overlap, ReductionOverlap::Always);
  EXPECT_EQ(changed.update, 1.5);
  EXPECT_EQ(parse_runtime(changed.name), changed);
  const Runtime sharded =
      parse_runtime("pipesim:slice=2us,updates=together,sharded-sums=whole,sharded-weights=broadcast");
  EXPECT_EQ(sharded.host.slice, Seconds(2e-6));
  EXPECT_TRUE(sharded.updates_together && sharded.sums_whole && sharded.broadcasts_weights);
  EXPECT_EQ(parse_runtime("megatron:interference=0.25").interference, 0.25);
  EXPECT_EQ(parse_runtime("megatron").interference, 0);
  EXPECT_EQ(parse_runtime("nanotron:updates=each,sharded-sums=scattered,slice=0s").host.slice, Seconds(0));
}

TEST(Runtime, OfDeepspeedIsThatOfPytorchButForWhatItHolds) {
  const Runtime torch = parse_runtime("torch-eager"), deepspeed = parse_runtime("deepspeed");
  EXPECT_EQ(deepspeed.step_gradients, StepGradients::Flat);
  EXPECT_EQ(deepspeed.bucket, 500'000'000);
  EXPECT_EQ(deepspeed.step_part, 1'000'000'000);
  EXPECT_TRUE(deepspeed.copies_buckets && deepspeed.keeps_own_gradients);
  EXPECT_EQ(deepspeed.reuse_distance, 1'000'000'000);
  Runtime same = parse_runtime(
      "deepspeed:step-gradients=own,step-part=0,buckets=0,bucket-sums=in-place,own-gradients=freed,"
      "reuse-distance=0,optimizer-kernel=foreach,token-counts=read");
  same.name = torch.name;
  EXPECT_EQ(same, torch);
}

TEST(Runtime, OfPlainPytorchStepsThroughLists) {
  EXPECT_EQ(parse_runtime("torch-eager").optimizer_kernel, OptimizerKernel::Foreach);
  for (const char* name : {"pipesim", "megatron", "torch-compile", "nanotron", "internevo", "deepspeed"})
    EXPECT_EQ(parse_runtime(name).optimizer_kernel, OptimizerKernel::Fused) << name;
  EXPECT_EQ(parse_runtime("deepspeed:optimizer-kernel=single").optimizer_kernel, OptimizerKernel::Single);
  const Runtime fused = with_optimizer_kernel(parse_runtime("torch-eager:flash=1"), OptimizerKernel::Fused);
  EXPECT_EQ(fused.name, "torch-eager:flash=1,optimizer-kernel=fused");
  EXPECT_EQ(parse_runtime(fused.name), fused);
  EXPECT_EQ(with_optimizer_kernel(Runtime(), OptimizerKernel::Fused), Runtime());
}

TEST(Runtime, TakesOverWhatAnotherHoldsForSteps) {
  const Runtime deepspeed = parse_runtime("deepspeed");
  const Runtime changed = with_step_memory_of(deepspeed, Runtime());
  EXPECT_EQ(changed.name,
            "pipesim:step-gradients=flat,step-part=1000000000,buckets=500000000,bucket-sums=copied,"
            "own-gradients=kept,reuse-distance=1000000000");
  EXPECT_EQ(parse_runtime(changed.name), changed);
  EXPECT_FALSE(changed.has_host());
  EXPECT_EQ(with_step_memory_of(parse_runtime("torch-eager"), Runtime()).name,
            "pipesim:optimizer-kernel=foreach");
  EXPECT_EQ(with_step_memory_of(parse_runtime("torch-compile"), Runtime()), Runtime());
  EXPECT_EQ(with_step_memory_of(Runtime(), parse_runtime("megatron:flash=2")).name,
            "megatron:flash=2,step-gradients=own");
}

TEST(Runtime, RecordsGraphsOfPartsOrOfAll) {
  for (const char* graphs :
       {"none", "iteration", "layer", "attn", "mlp+mamba", "attn+moe_router+moe_preprocess"})
    EXPECT_EQ(name_of(parse_cuda_graphs(graphs)), graphs);
  EXPECT_EQ(name_of(parse_cuda_graphs("mamba+attn")), "attn+mamba");
  Runtime whole = parse_runtime("megatron:graphs=iteration");
  const Runtime preset = parse_runtime("cuda-graph");
  whole.name = preset.name;
  EXPECT_EQ(whole, preset);
  EXPECT_EQ(with_graphs(parse_runtime("megatron"), parse_cuda_graphs("attn")).name, "megatron:graphs=attn");
  EXPECT_EQ(parse_runtime("megatron:graphs=attn").host, parse_runtime("megatron").host);
  EXPECT_THAT(why_refused("megatron:graphs=attention"),
              HasSubstr("allowed: none, iteration, layer, or modules"));
  EXPECT_THAT(why_refused("megatron:graphs=moe_preprocess"), HasSubstr("with moe_router alone"));
  EXPECT_THAT(why_refused("megatron:graphs=moe+moe_router"), HasSubstr("moe_router without moe"));
  EXPECT_THAT(why_refused("megatron:graphs="), HasSubstr("allowed: none"));
}

TEST(Runtime, NamesWhatIsAllowed) {
  EXPECT_THAT(why_refused("megatron:step-gradients=yes"), HasSubstr("allowed: own, float32, flat"));
  EXPECT_THAT(why_refused("megatron:optimizer-kernel=none"), HasSubstr("allowed: fused, foreach, single"));
  EXPECT_THAT(why_refused("megatron:buckets=-1"), AllOf(HasSubstr("buckets"), HasSubstr("from 0 to")));
  EXPECT_THAT(why_refused("megatron:bucket-sums=twice"), HasSubstr("allowed: in-place, copied"));
  EXPECT_THAT(why_refused("megatron:own-gradients=yes"), HasSubstr("allowed: freed, kept"));
  EXPECT_THAT(why_refused("megatron:reuse-distance=far"),
              AllOf(HasSubstr("reuse-distance"), HasSubstr("from 0 to")));
  EXPECT_THAT(why_refused("megatrom"),
              AllOf(HasSubstr("did you mean \"megatron\""), HasSubstr("torch-eager")));
  EXPECT_THAT(why_refused("megatron:speed=2"), AllOf(HasSubstr("\"speed=2\""), HasSubstr("module (a time")));
  EXPECT_THAT(why_refused("megatron:module"), HasSubstr("KEY=VALUE"));
  EXPECT_THAT(why_refused("megatron:"), HasSubstr("KEY=VALUE"));
  EXPECT_THAT(why_refused("megatron:module=fast"), AllOf(HasSubstr("module"), HasSubstr("fast")));
  EXPECT_THAT(why_refused("megatron:module=-1us"), HasSubstr("module"));
  EXPECT_THAT(why_refused("megatron:flash=9"), HasSubstr("from 1 to 4"));
  EXPECT_THAT(why_refused("megatron:flash=2.5"), HasSubstr("allowed: 1, 2, 3 or 4"));
  EXPECT_THAT(why_refused("megatron:update=nan"), HasSubstr("from 1 to 10"));
  EXPECT_THAT(why_refused("megatron:overlap=sometimes"), HasSubstr("unless-sharded"));
  EXPECT_THAT(why_refused("megatron:gradient-sums=yes"), HasSubstr("allowed: apart, in-products"));
  EXPECT_THAT(why_refused("megatron:messages=late"),
              HasSubstr("allowed: beside, blocking-in-1f1b, blocking"));
  EXPECT_THAT(why_refused("megatron:interference=2"), HasSubstr("from 0 to 1"));
  EXPECT_THAT(why_refused("megatron:slice=thin"), AllOf(HasSubstr("slice"), HasSubstr("thin")));
  EXPECT_THAT(why_refused("megatron:updates=late"), HasSubstr("allowed: each, together"));
  EXPECT_THAT(why_refused("megatron:sharded-sums=half"), HasSubstr("allowed: scattered, whole"));
  EXPECT_THAT(why_refused("megatron:sharded-weights=sent"), HasSubstr("allowed: gathered, broadcast"));
}

// Processes launch what an operator says that frameworks launch.
TEST(Runtime, PaysForModulesAndKernels) {
  GraphBuilder b("g", 4);
  const TensorId x = b.data("x", {4, 8});
  const TensorId y =
      b.add("linear", "fc", {x}, {{"out", std::vector<std::int64_t>{8}}, {"activation", "gelu"}});
  b.add("linear", "plain", {y}, {{"out", std::vector<std::int64_t>{8}}, {"bias", 0}});
  const OperatorGraph graph = b.build();
  const HostTimes times = parse_runtime("pipesim:module=100us,backward=10us,kernel=1us").host;
  const std::vector<std::int32_t> kWhole(graph.operators()[0].factors.size(), 1);
  const auto micros = [&](std::size_t op, Pass pass) {
    return host_time(graph.operators()[op], pass, times, kWhole).value * 1e6;
  };
  EXPECT_DOUBLE_EQ(micros(0, Pass::Forward), 100 + 2);  // the product, the activation
  EXPECT_DOUBLE_EQ(micros(0, Pass::BackwardInput), 10 + 2);
  EXPECT_DOUBLE_EQ(micros(0, Pass::BackwardWeight), 2);  // of the weight, of the bias
  EXPECT_DOUBLE_EQ(micros(1, Pass::Forward), 100 + 1);
  EXPECT_DOUBLE_EQ(micros(1, Pass::BackwardWeight), 1);
}

// In 8 bits each of a device's experts has a kernel for its product, and two that bring an operand into them.
TEST(Runtime, LaunchesKernelsForEachExpert) {
  GraphBuilder b("g", 4);
  const TensorId z = b.data("z", {4, 8, 16, 32});
  const TensorId y = b.add("expert_linear", "first", {z}, {{"out", 64}});
  b.add("expert_linear", "second", {y}, {{"out", 32}, {"products", "float8"}});
  const OperatorGraph graph = b.build();
  const HostTimes times = parse_runtime("pipesim:module=100us,backward=10us,kernel=1us,expert=5us").host;
  const auto micros = [&](std::size_t number, Pass pass, std::int32_t degree) {
    const Operator& op = graph.operators()[number];
    std::vector<std::int32_t> degrees(op.factors.size(), 1);
    degrees[static_cast<std::size_t>(op.factor("e"))] = degree;
    return host_time(op, pass, times, degrees).value * 1e6;
  };
  EXPECT_DOUBLE_EQ(micros(0, Pass::Forward, 1), 100 + 1 + 7 * 5);
  EXPECT_DOUBLE_EQ(micros(1, Pass::Forward, 1), 100 + 3 + 7 * 3 * 5);
  EXPECT_DOUBLE_EQ(micros(1, Pass::BackwardInput, 4), 10 + 3 + 3 * 5);  // two experts on each device
  EXPECT_DOUBLE_EQ(micros(1, Pass::BackwardWeight, 4), 1 + 5);
  EXPECT_DOUBLE_EQ(micros(1, Pass::Forward, 8), 100 + 3);
}

// Megatron-LM's kernel of scale, mask and softmax takes four batches of heads at a time.
TEST(Runtime, RunsFurtherModulesWhereAKernelTakesMultiplesOnly) {
  const OperatorGraph graph = make_zoo_model(
      "gpt:batch=2,layers=1,hidden=64,heads=4,sequence=16,vocab=128,positions=16,dropout=0,attention=scores");
  const auto scores = std::ranges::find_if(graph.operators(),
                                           [](const Operator& op) { return op.separate.fused.has_value(); });
  ASSERT_NE(scores, graph.operators().end());
  const HostTimes times = parse_runtime("pipesim:module=100us,backward=10us,kernel=1us").host;
  const auto micros = [&](Pass pass, std::int32_t samples, std::int32_t heads) {
    std::vector<std::int32_t> degrees(scores->factors.size(), 1);
    degrees[static_cast<std::size_t>(scores->factor("b"))] = samples;
    degrees[static_cast<std::size_t>(scores->factor("g"))] = heads;
    return host_time(*scores, pass, times, degrees).value * 1e6;
  };
  const double forward = micros(Pass::Forward, 1, 1), backward = micros(Pass::BackwardInput, 1, 1);
  EXPECT_DOUBLE_EQ(micros(Pass::Forward, 2, 1), forward);  // four heads of one sample
  EXPECT_DOUBLE_EQ(micros(Pass::Forward, 1, 2), forward);  // two heads of two samples
  EXPECT_DOUBLE_EQ(micros(Pass::Forward, 2, 2), forward + 4 * 101);
  EXPECT_DOUBLE_EQ(micros(Pass::BackwardInput, 2, 2), backward + 4 * 11);
}

// Eight experts, two a token; the type has two bytes. A device that has one expert need not sort.
TEST(Runtime, SortsReceivedTokensByExpert) {
  constexpr std::int64_t kTokens = 4096, kWidth = 1024;
  GraphBuilder b("g", 1, DataType::Float16);
  const TensorId x = b.data("x", {1, kTokens, kWidth}, DataType::Float16),
                 p = b.data("p", {1, kTokens, 8}, DataType::Float16);
  b.add("moe_dispatch", "dispatch", {x, p}, {{"top_k", 2}, {"capacity", 1024}});
  const OperatorGraph graph = b.build();
  const Operator& op = graph.operators().front();
  const Topology topology = make_topology("dgx-a100:gpus=1");
  const auto time = [&](std::string_view runtime, std::int64_t experts) {
    std::vector<Range> ranges;
    for (const Factor& f : op.factors) ranges.push_back({0, f.size});
    ranges[static_cast<std::size_t>(op.factor("e"))] = {0, experts};
    return CostModel(topology, nullptr, parse_runtime(runtime))
        .operator_time(graph, op, Pass::Forward, ranges, DeviceId(0))
        .value;
  };
  const double sorted = 2.0 * 2 * kTokens * kWidth * 2 / (2039e9 * 0.8);
  EXPECT_NEAR(time("megatron", 8) - time("pipesim", 8), sorted, 1e-9);
  EXPECT_NEAR(time("megatron:dispatcher=alltoall", 4) - time("pipesim", 4), sorted / 2, 1e-9);
  EXPECT_DOUBLE_EQ(time("megatron:dispatcher=hybridep", 8), time("pipesim", 8));
  EXPECT_DOUBLE_EQ(time("megatron:dispatcher=deepep", 8), time("pipesim", 8));
  EXPECT_DOUBLE_EQ(time("megatron", 1), time("pipesim", 1));
}

// An A100 moves 2039 GB/s x 0.8.
TEST(Runtime, PaysForWhatSeparateKernelsMove) {
  GraphBuilder b("g", 4096, DataType::Float16);
  const TensorId x = b.data("x", {4096, 4096}, DataType::Float16);
  const TensorId y =
      b.add("linear", "fc", {x}, {{"out", std::vector<std::int64_t>{4096}}, {"activation", "gelu"}});
  b.add("linear", "next", {y}, {{"out", std::vector<std::int64_t>{4096}}, {"bias", 0}});
  const OperatorGraph graph = b.build();
  const Topology topology = make_topology("dgx-a100:gpus=1");
  const CostModel fused(topology), separate(topology, nullptr, parse_runtime("megatron"));
  const auto more = [&](std::size_t number, Pass pass) {
    const Operator& op = graph.operators()[number];
    std::vector<Range> whole;
    for (const Factor& f : op.factors) whole.push_back({0, f.size});
    return (separate.operator_time(graph, op, pass, whole, DeviceId(0)) -
            fused.operator_time(graph, op, pass, whole, DeviceId(0)))
        .value;
  };
  const double elements = 4096.0 * 4096, bandwidth = 2039e9 * 0.8;
  const auto moved = [&](double bytes) { return elements * bytes / bandwidth; };
  EXPECT_NEAR(more(0, Pass::Forward), moved(4), moved(0.001));  // the activation reads and writes
  EXPECT_NEAR(more(1, Pass::Forward), 0, moved(0.001));
  // The gradient of a weight is added to a sum in float32: read, and read and written there.
  EXPECT_NEAR(more(1, Pass::BackwardWeight), moved(2 + 8), moved(0.001));
  EXPECT_NEAR(more(0, Pass::BackwardWeight), moved(2 + 8) + moved(2),
              moved(0.01));  // the bias's reads once more
  EXPECT_DOUBLE_EQ((separate.update_time({Optimizer::Adam, DataType::Float16, 1'000'000}, DeviceId(0)) /
                    fused.update_time({Optimizer::Adam, DataType::Float16, 1'000'000}, DeviceId(0))),
                   1.3);
}

// Weights of 65,536 by 64 and 64 samples: the product is bound by the bytes of the weight's gradient.
TEST(Runtime, MayAddToGradientsInProducts) {
  constexpr std::int64_t kSamples = 64, kOut = 65536;
  GraphBuilder b("g", kSamples, DataType::Float16);
  const TensorId x = b.data("x", {kSamples, kSamples}, DataType::Float16);
  const TensorId y =
      b.add("linear", "first", {x}, {{"out", std::vector<std::int64_t>{kSamples}}, {"bias", 0}});
  b.add("linear", "fc", {y}, {{"out", std::vector<std::int64_t>{kOut}}, {"bias", 0}});
  const OperatorGraph graph = b.build();
  const Operator& op = graph.operators()[1];
  const std::vector<Range> whole = [&] {
    std::vector<Range> ranges;
    for (const Factor& f : op.factors) ranges.push_back({0, f.size});
    return ranges;
  }();
  const KernelWork apart = shard_kernel(graph, op, Pass::BackwardWeight, whole).work;
  const double elements = kSamples * kOut;
  EXPECT_DOUBLE_EQ(apart.gradient_bytes, 2 * elements);
  EXPECT_DOUBLE_EQ(apart.sum_bytes, 8 * elements);
  const KernelWork together = with_sums(apart);
  EXPECT_DOUBLE_EQ(together.bytes + together.exposed_bytes, apart.bytes + 6 * elements);
  EXPECT_DOUBLE_EQ(together.exposed_bytes, 0.75 * 6 * elements);
  const KernelWork narrow =
      with_sums(shard_kernel(graph, op, Pass::BackwardWeight, whole, {}, DataType::BFloat16).work);
  EXPECT_DOUBLE_EQ(narrow.exposed_bytes, 0.75 * 2 * elements);
  EXPECT_EQ(together.gradient_bytes + together.sum_bytes, 0);
  const Topology topology = make_topology("dgx-a100:gpus=1");
  const auto time = [&](std::string_view runtime) {
    return CostModel(topology, nullptr, parse_runtime(runtime))
        .operator_time(graph, op, Pass::BackwardWeight, whole, DeviceId(0))
        .value;
  };
  // Written, read, added: 12 bytes for each element; in the product 8.
  EXPECT_NEAR(time("megatron") - time("megatron:gradient-sums=in-products"), 4 * elements / (2039e9 * 0.8),
              1e-9);
}

}  // namespace
}  // namespace pipesim
