#include <fmt/format.h>
#include <gmock/gmock.h>

#include <algorithm>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "tests/taskgraph/copies.h"

namespace pipesim {
namespace {

// Bytes a parameter with Adam, 16-bit weights and float32 gradients (Rajbhandari et al., figure 1, where
// gradients have 16 bits).
TEST(DividedState, TakesAsMuchMemoryAsTheClosedForm) {
  for (const char* sharding : {"none", "zero1", "zero2", "zero3"}) {
    SCOPED_TRACE(sharding);
    const Copies c(kCopiedLlama, sharding);
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
  const Copies fsdp(kCopiedLlama, "zero3,weights=float32");
  const std::int64_t all = fsdp.parameters(), part = all / kCopies;
  EXPECT_EQ(fsdp.memory().weights, Bytes(4 * part));
  EXPECT_EQ(fsdp.memory().gradients, Bytes(4 * part));
  EXPECT_EQ(fsdp.memory().optimizer_state, Bytes(8 * part));
  for (const auto& [type, bytes] : {std::pair(DataType::Float32, 4), std::pair(DataType::BFloat16, 2)}) {
    for (const char* sharding : {"zero1", "zero1,gather=float32", "zero1,overlap=gather"}) {
      const Copies megatron(kCopiedLlama, sharding, 1, type);
      EXPECT_EQ(megatron.memory().weights, Bytes(2 * all)) << sharding;
      EXPECT_EQ(megatron.memory().gradients, Bytes(bytes * all)) << sharding;
      EXPECT_EQ(megatron.memory().optimizer_state, Bytes(12 * part)) << sharding;
    }
  }
}

// PyTorch's pipelines gather weights once and hold them, in 16 bits, beside whole float32 gradients; what is
// divided are the weights' float32 copy and two moments. With gradients=whole, gradients alone are whole.
TEST(DividedState, OfPipelinesOfPyTorchTakesAsMuchMemoryAsTheClosedForm) {
  const Copies last(kCopiedLlama, "zero3,reshard=last,weights=float32", 3);
  const std::int64_t all = last.parameters(), part = all / kCopies;
  EXPECT_EQ(last.memory().weights + last.memory().gradients + last.memory().optimizer_state,
            Bytes((2 + 4) * all + 12 * part));
  EXPECT_EQ(last.peak().at_peak[static_cast<std::size_t>(MemoryCategory::GatheredWeights)], Bytes(0));
  const Copies whole(kCopiedLlama, "zero3,gradients=whole,weights=float32", 3);
  EXPECT_EQ(whole.memory().weights, Bytes(4 * part));
  EXPECT_EQ(whole.memory().gradients, Bytes(4 * all));
  EXPECT_EQ(whole.memory().optimizer_state, Bytes(8 * part));
}

// What is gathered once and reduced once moves and takes as long as under zero1.
TEST(DividedState, GatheredOnceRunsAsUnderZero1) {
  const Copies once(kCopiedLlama, "zero3,reshard=last", 3), other(kCopiedLlama, "zero1,overlap=gather", 3);
  EXPECT_EQ(simulate(once.expanded.dag()).makespan, simulate(other.expanded.dag()).makespan);
  EXPECT_EQ(once.peak().peak, other.peak().peak);
}

Bytes state_of(const char* optimizer) {
  return Copies(kCopiedLlama, "zero1", 1, DataType::Float32, kCopies, "pipesim", parse_optimizer(optimizer))
      .memory()
      .optimizer_state;
}

// Muon keeps one moment of layers' matrices and two of the rest. Adafactor keeps a mean for each row and
// column of matrices and one for each element of the rest. Beside both there is a float32 copy.
TEST(DividedState, DependsOnTheOptimizer) {
  const Copies c(kCopiedLlama, "zero1");
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
const std::string kAdapted = std::string(kCopiedLlama) + ",lora=8";

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
    const Copies c(kCopiedLlama, e.sharding, kMicrobatches);
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
    const Copies c(kCopiedLlama, t.sharding, kMicrobatches, t.gradients);
    EXPECT_EQ(c.bytes_of(TaskKind::WeightGather), t.gathers * (kCopies - 1) * c.parameters());
    EXPECT_EQ(c.bytes_of(TaskKind::GradientSync), t.reductions * (kCopies - 1) * c.parameters());
  }
  const Copies whole(kCopiedLlama, "none", kMicrobatches);
  EXPECT_EQ(whole.bytes_of(TaskKind::GradientSync), 2 * (kCopies - 1) * whole.parameters() * 4);
}

// Inside each group the state is divided; across groups the parts are added up.
TEST(DividedState, OfGroupsMovesMoreGradients) {
  const Copies c(kCopiedLlama, "zero3,shard=4");
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

Copies run_by(const char* runtime, const char* sharding, const char* model = kCopiedLlama) {
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
    const Copies scattered(kCopiedLlama, sharding), whole = run_by(kWhole, sharding);
    const std::int64_t moved = (kCopies - 1) * whole.parameters();
    EXPECT_EQ(whole.bytes_of(TaskKind::GradientSync), 2 * moved * 4);
    EXPECT_EQ(whole.bytes_of(TaskKind::WeightGather), moved * 2);
    EXPECT_EQ(whole.memory(), scattered.memory());
    EXPECT_EQ(whole.peak().peak, scattered.peak().peak);
  }
  for (const char* sharding : {"none", "zero2", "zero3"}) {
    const Copies scattered(kCopiedLlama, sharding), same = run_by(kWhole, sharding);
    EXPECT_EQ(same.bytes_of(TaskKind::GradientSync), scattered.bytes_of(TaskKind::GradientSync));
    EXPECT_EQ(simulate(same.expanded.dag()).makespan, simulate(scattered.expanded.dag()).makespan);
  }
}

TEST(DividedState, IsUpdatedTogether) {
  for (const char* sharding : {"none", "zero1", "zero2", "zero1,overlap=gather"}) {
    SCOPED_TRACE(sharding);
    const Copies each(kCopiedLlama, sharding), together = run_by("pipesim:updates=together", sharding);
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
  const Copies plain(kCopiedLlama, "zero1");
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
            simulate(Copies(kCopiedLlama, "zero3").expanded.dag()).makespan);
}

}  // namespace
}  // namespace pipesim
