#include <fmt/format.h>
#include <gmock/gmock.h>

#include <algorithm>
#include <memory>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "models/zoo/zoo.h"
#include "sim/simulate.h"
#include "taskgraph/memory/peak_memory.h"
#include "tests/taskgraph/expansion.h"
#include "tests/taskgraph/replica_plans.h"

namespace pipesim {
namespace {

constexpr std::int32_t kCopies = 8;

/// Copies of a model, each with its own samples.
struct Copies {
  Copies(const char* model, const std::string& sharding, std::int32_t microbatches = 1,
         DataType gradient_type = DataType::Float32, std::int32_t copies = kCopies,
         const char* runtime = "pipesim", const Optimizer& optimizer = Optimizer::Adam)
      : graph(make_zoo_model(model)),
        costs(topology, nullptr, parse_runtime(runtime)),
        options(options_of(sharding, microbatches, gradient_type, optimizer)) {
    Strategy strategy;
    for (const Operator& op : graph.operators()) strategy.push_back(in_both(op, 0, copies, 1));
    bound = contents.bind(strategy);
    expanded.expand(bound, {.labels = Labels::Make});
  }
  static PlanOptions options_of(const std::string& sharding, std::int32_t microbatches,
                                DataType gradient_type, const Optimizer& optimizer) {
    PlanOptions options;
    options.optimizer = optimizer;
    options.microbatches = microbatches;
    options.gradient_type = gradient_type;
    options.state_sharding = parse_state_sharding(sharding);
    return options;
  }
  [[nodiscard]] std::int64_t bytes_of(TaskKind kind) const {
    std::int64_t sum = 0;
    for (const TaskLabel& l : expanded.graph().labels) {
      if (l.kind == kind) sum += bytes_on_links(l.collective, l.group_size, l.size);
    }
    return sum;
  }
  [[nodiscard]] std::int64_t parameters() const {
    std::int64_t sum = 0;
    for (const Tensor& t : graph.tensors()) sum += t.kind == TensorKind::Weight ? t.elements() : 0;
    return sum;
  }
  [[nodiscard]] WeightMemory memory() const { return contents.permanent_memory(bound)[3]; }
  [[nodiscard]] DeviceMemory peak(std::size_t device = 3) const {
    return peak_memory(expanded, simulate(expanded.dag()))[device];
  }

  OperatorGraph graph;
  Topology topology = make_topology("dgx-a100:1");
  CostModel costs;
  PlanOptions options;
  PlanContents contents{graph, costs, options};
  ExpandedStrategy expanded{contents};
  BoundStrategy bound;
};

constexpr const char* kModel =
    "llama:batch=8,layers=3,hidden=64,heads=4,kv_heads=4,vocab=64,sequence=16,ffn=64,dtype=bfloat16";

// Bytes a parameter with Adam, 16-bit weights and float32 gradients (Rajbhandari et al., figure 1, where
// gradients have 16 bits).
TEST(DividedState, TakesAsMuchMemoryAsTheClosedForm) {
  for (const char* sharding : {"none", "zero1", "zero2", "zero3"}) {
    SCOPED_TRACE(sharding);
    const Copies c(kModel, sharding);
    const std::int64_t all = c.parameters(), part = all / kCopies;
    const auto kind = c.options.state_sharding.kind;
    EXPECT_EQ(c.memory().weights, Bytes(2 * (kind >= StateSharding::Kind::Weights ? part : all)));
    EXPECT_EQ(c.memory().gradients, Bytes(4 * (kind >= StateSharding::Kind::Gradients ? part : all)));
    EXPECT_EQ(c.memory().optimizer_state, Bytes(12 * (kind >= StateSharding::Kind::Optimizer ? part : all)));
  }
}

// FSDP2 keeps float32 weights, gradients and moments, all divided; gathered copies have 16 bits.
// Megatron-LM's distributed optimizer keeps 16-bit weights, and gradients of 16 or 32 bits, whole.
TEST(DividedState, TakesAsMuchMemoryAsFrameworksSay) {
  const Copies fsdp(kModel, "zero3,weights=float32");
  const std::int64_t all = fsdp.parameters(), part = all / kCopies;
  EXPECT_EQ(fsdp.memory().weights, Bytes(4 * part));
  EXPECT_EQ(fsdp.memory().gradients, Bytes(4 * part));
  EXPECT_EQ(fsdp.memory().optimizer_state, Bytes(8 * part));
  for (const auto& [type, bytes] : {std::pair(DataType::Float32, 4), std::pair(DataType::BFloat16, 2)}) {
    for (const char* sharding : {"zero1", "zero1,gather=float32", "zero1,overlap=gather"}) {
      const Copies megatron(kModel, sharding, 1, type);
      EXPECT_EQ(megatron.memory().weights, Bytes(2 * all)) << sharding;
      EXPECT_EQ(megatron.memory().gradients, Bytes(bytes * all)) << sharding;
      EXPECT_EQ(megatron.memory().optimizer_state, Bytes(12 * part)) << sharding;
    }
  }
}

// One sample of one token on each device: a device holds most during the step.
constexpr const char* kWide =
    "llama:batch=8,layers=2,hidden=256,heads=4,kv_heads=4,vocab=64,sequence=1,ffn=256,dtype=bfloat16";

Bytes gradients_at_peak(const char* sharding, DataType type, const char* runtime,
                        const Optimizer& optimizer = Optimizer::Adam) {
  const Copies c(kWide, sharding, 1, type, kCopies, runtime, optimizer);
  const DeviceMemory peak = c.peak();
  return peak.at_peak[static_cast<std::size_t>(MemoryCategory::Gradients)];
}

// Bytes a parameter: gradients of 16 bits, whole or a part, and float32 copies of the part that is updated.
TEST(Step, HoldsGradientsInFloat32) {
  const std::int64_t all = Copies(kWide, "none").parameters(), part = all / kCopies;
  using enum DataType;
  EXPECT_EQ(gradients_at_peak("none", BFloat16, "megatron"), Bytes((2 + 4) * all));
  EXPECT_EQ(gradients_at_peak("zero1", BFloat16, "megatron"), Bytes(2 * all + 4 * part));
  EXPECT_EQ(gradients_at_peak("zero1", Float32, "megatron"), Bytes(4 * all));
  EXPECT_EQ(gradients_at_peak("zero1", BFloat16, "torch-eager"), Bytes(2 * all));
  EXPECT_EQ(gradients_at_peak("zero1", BFloat16, "megatron", parse_optimizer("adam,main=remainder")),
            Bytes(2 * all));
  const Copies c(kWide, "none", 1, BFloat16, kCopies, "megatron");
  const DeviceMemory peak = c.peak();
  EXPECT_EQ(peak.peak, Bytes((2 + 2 + 12 + 4) * all));
  // The last update starts then.
  Nanoseconds last = 0;
  const Timeline timeline = simulate(c.expanded.dag());
  for (std::size_t t = 0; t < c.expanded.graph().labels.size(); ++t) {
    const TaskLabel& label = c.expanded.graph().labels[t];
    if (label.kind == TaskKind::Update && label.device == DeviceId(3))
      last = std::max(last, timeline.start[t]);
  }
  EXPECT_EQ(peak.when, last);
}

// Gradients of 16 bits are joined and copied for the step: whole ones to float32 and then joined, parts
// joined and then to float32. With buckets of half the gradients: two are no more than all.
TEST(Step, OfDeepspeedHoldsBucketsToo) {
  const std::int64_t all = Copies(kWide, "none").parameters(), part = all / kCopies;
  using enum DataType;
  const auto held = [](const char* sharding, DataType type, const std::string& changed = "") {
    return gradients_at_peak(sharding, type, ("deepspeed:bucket-sums=in-place" + changed).c_str());
  };
  EXPECT_EQ(held("none", BFloat16), Bytes((2 + 4 + 4) * all));
  EXPECT_EQ(held("zero1", BFloat16), Bytes((2 + 2) * all + (2 + 4) * part));
  EXPECT_EQ(held("zero2", BFloat16), Bytes(2 * all + (2 + 2 + 4) * part));
  EXPECT_EQ(held("zero2", BFloat16, ",buckets=1000"), Bytes(2 * 2000 + (2 + 2 + 4) * part));
  EXPECT_EQ(held("zero2", BFloat16, ",buckets=1000,overlap=never"), Bytes(2 * 1000 + (2 + 2 + 4) * part));
  // Float32 gradients: whole ones are reduced where they stand, parts are not.
  EXPECT_EQ(held("zero1", Float32, ",own-gradients=freed"), Bytes(4 * all));
  EXPECT_EQ(held("zero2", Float32), Bytes(2 * all + 4 * part));
}

// Its optimizer for bfloat16 holds gradients in float32, and those of the microbatch in bfloat16.
TEST(Step, OfDeepspeedHoldsTwoSortsOfGradients) {
  const std::int64_t all = Copies(kWide, "none").parameters();
  using enum DataType;
  EXPECT_EQ(gradients_at_peak("zero1", Float32, "deepspeed"), Bytes((4 + 2) * all));
  EXPECT_EQ(gradients_at_peak("zero1", Float32, "torch-eager"), Bytes(4 * all));
  EXPECT_EQ(gradients_at_peak("none", Float32, "deepspeed"), Bytes(4 * all));
  const Copies several(kWide, "zero1", 3, Float32, kCopies, "deepspeed");
  const DeviceMemory peak = several.peak();
  EXPECT_EQ(peak.at_peak[static_cast<std::size_t>(MemoryCategory::Gradients)], Bytes((4 + 2) * all));
  EXPECT_EQ(several.memory().gradients, Bytes(4 * all));
  EXPECT_LE(peak.peak, allocated_memory(several.expanded)[3]);
  std::string half = kWide;
  half.replace(half.find("bfloat16"), 8, "float16");
  const Copies other(half.c_str(), "zero1", 1, Float32, kCopies, "deepspeed");
  EXPECT_EQ(other.peak().at_peak[static_cast<std::size_t>(MemoryCategory::Gradients)], Bytes(4 * all));
}

// All gradients are in one bucket, which is joined anew when it is reduced.
TEST(Step, OfDeepspeedCopiesBuckets) {
  const std::int64_t all = Copies(kWide, "none").parameters(), part = all / kCopies;
  using enum DataType;
  EXPECT_EQ(gradients_at_peak("zero1", BFloat16, "deepspeed"), Bytes((2 + 2 + 2) * all));
  EXPECT_EQ(gradients_at_peak("zero2", BFloat16, "deepspeed"), Bytes((2 + 2) * all + 2 * part));
  EXPECT_EQ(gradients_at_peak("zero3,prefetch=0", BFloat16, "deepspeed:reuse-distance=0"),
            Bytes((2 + 2) * all + 2 * part));
}

// There are many layers, so that what zero3 gathers for one of them is less.
TEST(Step, OfDeepspeedTakesPartsOfDividedWeights) {
  std::string model = kWide;
  model.replace(model.find("layers=2"), 8, "layers=16");
  const std::int64_t part = Copies(model.c_str(), "none").parameters() / kCopies;
  const auto gradients = [&](const char* runtime) {
    const Copies c(model.c_str(), "zero3,prefetch=0", 1, DataType::BFloat16, kCopies, runtime);
    return c.peak().at_peak[static_cast<std::size_t>(MemoryCategory::Gradients)];
  };
  EXPECT_EQ(gradients("deepspeed:buckets=1000,reuse-distance=0"), Bytes(2 * 1000 + (2 + 2 + 4) * part));
  EXPECT_EQ(gradients("deepspeed:buckets=1000,reuse-distance=0,step-part=600000"),
            Bytes(2 * 1000 + 2 * part + (2 + 4) * 600'000));
}

// What stays gathered is not gathered again, and is there when backward begins.
TEST(DividedState, StaysGatheredWithinTheReuseDistance) {
  const auto copies = [](const std::string& runtime) {
    return std::make_unique<Copies>(kModel, "zero3,prefetch=0", 2, DataType::BFloat16, kCopies,
                                    ("deepspeed:buckets=0,step-gradients=own" + runtime).c_str());
  };
  const auto gathered = [](const Copies& c) {
    return c.peak().at_peak[static_cast<std::size_t>(MemoryCategory::GatheredWeights)];
  };
  const auto none = copies(",reuse-distance=0"), all = copies("");
  const std::int64_t elements = none->parameters();
  const auto bytes = [](const Copies& c) { return c.bytes_of(TaskKind::WeightGather); };
  EXPECT_EQ(bytes(*none), 2 * bytes(*all));
  EXPECT_EQ(gathered(*all), Bytes(2 * elements));
  EXPECT_EQ(bytes(*all), bytes(Copies(kModel, "zero3,reshard=never", 2, DataType::BFloat16)));
  // A layer has four matrices for attention, three for the feed-forward part and two norms, and behind the
  // last of three are a norm and the head. Within twice what is behind its first weight, a norm, the last
  // layer stays but for that, which is gathered once more for the layer's backward.
  constexpr std::int64_t kMatrix = 64 * 64, kLayer = 7 * kMatrix + 2 * 64, kStays = kLayer + kMatrix;
  const auto last = copies(fmt::format(",reuse-distance={}", 2 * kStays));
  EXPECT_EQ(bytes(*last) * 2 * elements, bytes(*none) * (2 * elements - kStays));
  EXPECT_EQ(gathered(*last), Bytes(2 * kStays));
  EXPECT_LE(last->peak().peak, allocated_memory(last->expanded)[3]);
}

// PyTorch's pipelines gather weights once and hold them, in 16 bits, beside whole float32 gradients; what is
// divided are the weights' float32 copy and two moments. With gradients=whole, gradients alone are whole.
TEST(DividedState, OfPipelinesOfPyTorchTakesAsMuchMemoryAsTheClosedForm) {
  const Copies last(kModel, "zero3,reshard=last,weights=float32", 3);
  const std::int64_t all = last.parameters(), part = all / kCopies;
  EXPECT_EQ(last.memory().weights + last.memory().gradients + last.memory().optimizer_state,
            Bytes((2 + 4) * all + 12 * part));
  EXPECT_EQ(last.peak().at_peak[static_cast<std::size_t>(MemoryCategory::GatheredWeights)], Bytes(0));
  const Copies whole(kModel, "zero3,gradients=whole,weights=float32", 3);
  EXPECT_EQ(whole.memory().weights, Bytes(4 * part));
  EXPECT_EQ(whole.memory().gradients, Bytes(4 * all));
  EXPECT_EQ(whole.memory().optimizer_state, Bytes(8 * part));
}

// What is gathered once and reduced once moves and takes as long as under zero1.
TEST(DividedState, GatheredOnceRunsAsUnderZero1) {
  const Copies once(kModel, "zero3,reshard=last", 3), other(kModel, "zero1,overlap=gather", 3);
  EXPECT_EQ(simulate(once.expanded.dag()).makespan, simulate(other.expanded.dag()).makespan);
  EXPECT_EQ(once.peak().peak, other.peak().peak);
}

Bytes state_of(const char* optimizer) {
  return Copies(kModel, "zero1", 1, DataType::Float32, kCopies, "pipesim", parse_optimizer(optimizer))
      .memory()
      .optimizer_state;
}

// Muon keeps one moment of layers' matrices and two of the rest. Adafactor keeps a mean for each row and
// column of matrices and one for each element of the rest. Beside both there is a float32 copy.
TEST(DividedState, DependsOnTheOptimizer) {
  const Copies c(kModel, "zero1");
  const std::int64_t part = c.parameters() / kCopies;
  EXPECT_EQ(state_of("adam,moments=bfloat16,main=remainder"), Bytes(6 * part));
  EXPECT_EQ(state_of("adam,moments=bfloat16,main=none"), Bytes(4 * part));
  EXPECT_EQ(state_of("lion"), Bytes(8 * part));
  Bytes muon, adafactor;
  for (const Tensor& t : c.graph.tensors()) {
    if (t.kind != TensorKind::Weight) continue;
    const bool vector = t.shape.size() == 1;
    const bool in_layer = !vector && t.name.starts_with("layer");
    muon += Bytes((4 + (in_layer ? 4 : 8)) * t.elements() / kCopies);
    adafactor += Bytes(4 * t.elements() / kCopies);
    // All matrices are of 64 by 64.
    EXPECT_TRUE(vector || t.elements() == 64 * 64) << t.name;
    adafactor += Bytes((vector ? 4 * t.elements() : 4 * (64 + 64)) / kCopies);
  }
  EXPECT_EQ(state_of("muon"), muon);
  EXPECT_EQ(state_of("adafactor"), adafactor);
}

// A device without others to divide with makes copies of 16 bits all the same.
TEST(DividedState, OfFloat32IsRoundedForUseWithoutOtherCopiesToo) {
  constexpr const char* kOneLayer =
      "llama:batch=8,layers=8,hidden=64,heads=4,kv_heads=4,vocab=64,sequence=16,ffn=64,dtype=bfloat16";
  const auto gathered = [](const DeviceMemory& m) {
    return m.at_peak[static_cast<std::size_t>(MemoryCategory::GatheredWeights)];
  };
  const Copies alone(kOneLayer, "zero3,weights=float32,reshard=never", 1, DataType::Float32, 1);
  EXPECT_EQ(alone.contents.permanent_memory(alone.bound)[0].weights, Bytes(4 * alone.parameters()));
  EXPECT_EQ(alone.bytes_of(TaskKind::WeightGather), 0);
  // At the end of forward all are held but the embedding, whose copy is kept too.
  EXPECT_EQ(gathered(alone.peak(0)), Bytes(2 * alone.parameters()));
  const Copies wide(kOneLayer, "zero3,weights=float32,gather=float32", 1, DataType::Float32, 1);
  EXPECT_EQ(gathered(wide.peak(0)), Bytes(0));
}

// Adapters of rank 8 beside seven products of each of three layers; frozen are the embedding, the head, norms
// and these products.
constexpr std::int64_t kTrained = 3 * 7 * 8 * (64 + 64), kProducts = 3 * 7 * 64 * 64,
                       kOtherFrozen = 2 * 64 * 64 + 7 * 64;
const std::string kAdapted = std::string(kModel) + ",lora=8";

// zero3 divides frozen weights like trained ones, which have gradients and state beside them.
TEST(DividedState, IsThatOfAdaptersAloneButForWeights) {
  for (const char* sharding : {"none", "zero2", "zero3", "zero3,weights=float32"}) {
    SCOPED_TRACE(sharding);
    const Copies c(kAdapted.c_str(), sharding);
    ASSERT_EQ(c.parameters(), kTrained + kProducts + kOtherFrozen);
    const auto kind = c.options.state_sharding.kind;
    const std::int64_t parts = kind == StateSharding::Kind::Weights ? kCopies : 1,
                       state = kind == StateSharding::Kind::None ? 1 : kCopies;
    const std::int64_t bytes = c.options.state_sharding.wide_weights ? 4 : 2;
    EXPECT_EQ(c.memory().weights, Bytes((bytes * kTrained + 2 * (kProducts + kOtherFrozen)) / parts));
    EXPECT_EQ(c.memory().gradients, Bytes(4 * kTrained / state));
    EXPECT_EQ(c.memory().optimizer_state, Bytes((bytes == 4 ? 8 : 12) * kTrained / state));
  }
  // 512 weights in 4 bits with scales: 264.125 bytes.
  const Copies packed((kAdapted + ",base=4bit").c_str(), "zero3");
  EXPECT_EQ(packed.memory().weights, Bytes(2 * (kTrained + kOtherFrozen) / kCopies + 3 * 7 * 265));
}

// Nothing needs gradients of the embedding, of the first norm, and of the input of the first queries, keys
// and values: their weights are gathered for forward alone. Weights in 4 bits travel so, 2113 bytes each.
TEST(DividedState, GathersFrozenWeightsAsTheyAreStored) {
  constexpr std::int64_t kMicrobatches = 3, kFirst = 64 * 64 + 64;
  for (const auto& [base, bytes] :
       {std::pair("own", 2 * 64 * 64), std::pair("8bit", 64 * 64), std::pair("4bit", 2113)}) {
    const Copies c((kAdapted + ",base=" + base).c_str(), "zero3", kMicrobatches);
    const std::int64_t twice = 2 * (kTrained + kOtherFrozen) + 3 * 7 * bytes,
                       not_back = 2 * kFirst + 3 * bytes;
    EXPECT_EQ(c.bytes_of(TaskKind::WeightGather), kMicrobatches * (kCopies - 1) * (2 * twice - not_back))
        << base;
    EXPECT_EQ(c.bytes_of(TaskKind::GradientSync), kMicrobatches * (kCopies - 1) * kTrained * 4) << base;
    const Copies kept((kAdapted + ",base=" + base).c_str(), "zero3,reshard=never", kMicrobatches);
    EXPECT_EQ(kept.bytes_of(TaskKind::WeightGather), kMicrobatches * (kCopies - 1) * twice) << base;
    const Copies whole((kAdapted + ",base=" + base).c_str(), "zero2", kMicrobatches);
    EXPECT_EQ(whole.bytes_of(TaskKind::WeightGather), (kCopies - 1) * kTrained * 2) << base;
  }
}

// Each device receives (n − 1)/n of what is gathered, and sends as much of what is reduced and scattered.
TEST(DividedState, MovesAsMuchAsTheClosedForm) {
  constexpr std::int32_t kMicrobatches = 3;
  struct Expected {
    const char* sharding;
    std::int64_t reductions, gathers;  // in an iteration
  };
  for (const Expected& e :
       {Expected{"zero1", 1, 1}, Expected{"zero2", kMicrobatches, 1},
        Expected{"zero3", kMicrobatches, 2 * kMicrobatches},
        Expected{"zero3,reshard=never", kMicrobatches, kMicrobatches}, Expected{"zero3,reshard=last", 1, 1},
        Expected{"zero3,gradients=whole", 1, 2 * kMicrobatches}}) {
    SCOPED_TRACE(e.sharding);
    const Copies c(kModel, e.sharding, kMicrobatches);
    const std::int64_t moved = (kCopies - 1) * c.parameters();
    EXPECT_EQ(c.bytes_of(TaskKind::GradientSync), e.reductions * moved * 4);
    EXPECT_EQ(c.bytes_of(TaskKind::WeightGather), e.gathers * moved * 2);
  }
  struct Typed {
    const char* sharding;
    DataType gradients;
    std::int64_t gathers, reductions;  // bytes a parameter in an iteration, but for the factor n − 1
  };
  constexpr DataType wide = DataType::Float32, narrow = DataType::BFloat16;
  for (const Typed& t :
       {Typed{"zero3,weights=float32", wide, 4 * kMicrobatches, 4 * kMicrobatches},
        Typed{"zero3,weights=float32", narrow, 4 * kMicrobatches, 2 * kMicrobatches},
        Typed{"zero3,weights=float32,gather=float32", wide, 8 * kMicrobatches, 4 * kMicrobatches},
        Typed{"zero2,gather=float32", narrow, 4, 2 * kMicrobatches},
        Typed{"zero1,gather=float32", wide, 4, 4}, Typed{"zero1", narrow, 2, 2},
        Typed{"zero1,overlap=gather", wide, 2, 4},
        Typed{"zero2,overlap=gather,gather=float32", wide, 4, 4 * kMicrobatches}}) {
    SCOPED_TRACE(t.sharding);
    const Copies c(kModel, t.sharding, kMicrobatches, t.gradients);
    EXPECT_EQ(c.bytes_of(TaskKind::WeightGather), t.gathers * (kCopies - 1) * c.parameters());
    EXPECT_EQ(c.bytes_of(TaskKind::GradientSync), t.reductions * (kCopies - 1) * c.parameters());
  }
  const Copies whole(kModel, "none", kMicrobatches);
  EXPECT_EQ(whole.bytes_of(TaskKind::GradientSync), 2 * (kCopies - 1) * whole.parameters() * 4);
}

// Inside each group the state is divided; across groups the parts are added up.
TEST(DividedState, OfGroupsMovesMoreGradients) {
  const Copies c(kModel, "zero3,shard=4");
  EXPECT_EQ(c.memory().optimizer_state, Bytes(12 * c.parameters() / 4));
  EXPECT_EQ(c.bytes_of(TaskKind::WeightGather), 2 * 2 * 3 * c.parameters() * 2);
}

// Gathers in forward hide behind it, but for those of the first layers.
TEST(DividedState, GathersInForwardWhileItComputes) {
  constexpr const char* kLarge =
      "llama:batch=8,layers=6,hidden=1024,heads=8,kv_heads=8,vocab=64,sequence=512,ffn=2048,dtype=bfloat16";
  const auto runs = [](const char* sharding) {
    const Copies c(kLarge, sharding, 2);
    const Timeline timeline = simulate(c.expanded.dag());
    Nanoseconds first_gather = INT64_MAX, last_gather = 0, last_update = 0;
    for (std::size_t t = 0; t < timeline.start.size(); ++t) {
      const TaskKind kind = c.expanded.graph().labels[t].kind;
      if (kind == TaskKind::WeightGather) {
        first_gather = std::min(first_gather, timeline.start[t]);
        last_gather = std::max(last_gather, timeline.end[t]);
      }
      if (kind == TaskKind::Update) last_update = std::max(last_update, timeline.end[t]);
    }
    return std::tuple(first_gather, last_gather, last_update, timeline.makespan);
  };
  const auto [first, last, update, makespan] = runs("zero1");
  const auto [early_first, early_last, early_update, early_makespan] = runs("zero1,overlap=gather");
  EXPECT_GT(last, update);
  EXPECT_EQ(early_first, 0);
  EXPECT_LT(early_last, early_update);
  EXPECT_EQ(early_update, early_makespan);
  EXPECT_LT(early_makespan, makespan);
}

// Layers ahead of which weights are gathered are held at once; kept ones are held from forward to backward.
TEST(DividedState, HoldsGatheredWeightsAsLongAsTheyAreNeeded) {
  const auto gathered = [](const char* sharding) {
    const Copies c(
        "llama:batch=8,layers=12,hidden=256,heads=4,kv_heads=4,vocab=64,sequence=16,ffn=256,dtype=bfloat16",
        sharding);
    return c.peak().at_peak[static_cast<std::size_t>(MemoryCategory::GatheredWeights)].value;
  };
  const std::int64_t one_ahead = gathered("zero3"), two_ahead = gathered("zero3,prefetch=2"),
                     kept = gathered("zero3,reshard=never");
  EXPECT_GT(one_ahead, 0);
  EXPECT_LT(one_ahead, two_ahead);
  EXPECT_LT(two_ahead, kept);
  EXPECT_EQ(gathered("zero1"), 0);
}

Copies run_by(const char* runtime, const char* sharding, const char* model = kModel) {
  return {model, sharding, 1, DataType::Float32, kCopies, runtime};
}

/// Returns the starts and ends of the tasks of a kind, sorted.
std::vector<std::pair<Nanoseconds, Nanoseconds>> times_of(const Copies& c, TaskKind kind) {
  const Timeline timeline = simulate(c.expanded.dag());
  std::vector<std::pair<Nanoseconds, Nanoseconds>> times;
  for (std::size_t t = 0; t < timeline.start.size(); ++t) {
    if (c.expanded.graph().labels[t].kind == kind) times.emplace_back(timeline.start[t], timeline.end[t]);
  }
  std::ranges::sort(times);
  return times;
}

Nanoseconds last_end(const std::vector<std::pair<Nanoseconds, Nanoseconds>>& times) {
  Nanoseconds last = 0;
  for (const auto& [start, end] : times) last = std::max(last, end);
  return last;
}

// A whole sum moves twice the bytes of a scattered one, and memory stays the same.
TEST(DividedState, OfOptimizersAloneIsSummedWhole) {
  constexpr const char* kWhole = "pipesim:sharded-sums=whole";
  for (const char* sharding : {"zero1", "zero1,overlap=gather"}) {
    const Copies scattered(kModel, sharding), whole = run_by(kWhole, sharding);
    const std::int64_t moved = (kCopies - 1) * whole.parameters();
    EXPECT_EQ(whole.bytes_of(TaskKind::GradientSync), 2 * moved * 4);
    EXPECT_EQ(whole.bytes_of(TaskKind::WeightGather), moved * 2);
    EXPECT_EQ(whole.memory(), scattered.memory());
    EXPECT_EQ(whole.peak().peak, scattered.peak().peak);
  }
  for (const char* sharding : {"none", "zero2", "zero3"}) {
    const Copies scattered(kModel, sharding), same = run_by(kWhole, sharding);
    EXPECT_EQ(same.bytes_of(TaskKind::GradientSync), scattered.bytes_of(TaskKind::GradientSync));
    EXPECT_EQ(simulate(same.expanded.dag()).makespan, simulate(scattered.expanded.dag()).makespan);
  }
}

TEST(DividedState, IsUpdatedTogether) {
  for (const char* sharding : {"none", "zero1", "zero2", "zero1,overlap=gather"}) {
    SCOPED_TRACE(sharding);
    const Copies each(kModel, sharding), together = run_by("pipesim:updates=together", sharding);
    EXPECT_LT(times_of(each, TaskKind::Update).front().first,
              last_end(times_of(each, TaskKind::GradientSync)));
    const auto updates = times_of(together, TaskKind::Update);
    EXPECT_GT(updates.front().first, last_end(times_of(together, TaskKind::GradientSync)));
    EXPECT_GT(updates.front().first, last_end(times_of(together, TaskKind::BackwardWeight)));
    EXPECT_GE(last_end(updates), last_end(times_of(each, TaskKind::Update)));
    const auto gathers = times_of(together, TaskKind::WeightGather);
    if (gathers.empty() || together.options.state_sharding.gathers_in_forward()) continue;
    EXPECT_GT(gathers.front().first, last_end(updates));
  }
}

// 10 us for each slice, and a slice for each weight and copy.
TEST(DividedState, IsSlicedByTheHost) {
  const auto slices = [](const char* sharding) {
    const Copies c = run_by("pipesim:slice=10us", sharding);
    Nanoseconds sum = 0;  // of a device
    for (const auto& [start, end] : times_of(c, TaskKind::Update)) sum += end - start;
    return std::pair(sum / kCopies / 10'000, sum % (kCopies * 10'000));
  };
  const Copies plain(kModel, "zero1");
  const std::int64_t weights = std::ranges::count(plain.graph.tensors(), TensorKind::Weight, &Tensor::kind);
  EXPECT_EQ(slices("zero1"), std::pair(weights * kCopies, std::int64_t{0}));
  EXPECT_EQ(slices("zero1,shard=2"), std::pair(weights * 2, std::int64_t{0}));
  EXPECT_LT(slices("none").first, weights);
  EXPECT_LT(slices("zero3").first, weights);
}

// Broadcasts take as long as the closed form says, and follow one another.
TEST(DividedState, IsBroadcastInTurn) {
  constexpr const char* kBroadcast = "pipesim:sharded-weights=broadcast";
  for (const char* sharding : {"zero1", "zero2", "zero1,overlap=gather"}) {
    SCOPED_TRACE(sharding);
    const Copies c = run_by(kBroadcast, sharding);
    std::vector<DeviceId> all;
    for (std::int32_t d = 0; d < kCopies; ++d) all.emplace_back(d);
    const CollectivePlan broadcast = c.costs.plan_broadcast_gather(all);
    std::vector<Nanoseconds> expected, durations;
    for (const Tensor& t : c.graph.tensors()) {
      if (t.kind == TensorKind::Weight)
        expected.push_back(to_nanoseconds(broadcast.duration_at(Bytes(2 * t.elements()))));
    }
    Nanoseconds before = 0;
    for (const auto& [start, end] : times_of(c, TaskKind::WeightGather)) {
      EXPECT_GE(start, before);
      durations.push_back(end - start);
      before = end;
    }
    EXPECT_THAT(durations, testing::UnorderedElementsAreArray(expected));
  }
  EXPECT_EQ(simulate(run_by(kBroadcast, "zero3").expanded.dag()).makespan,
            simulate(Copies(kModel, "zero3").expanded.dag()).makespan);
}

}  // namespace
}  // namespace pipesim
