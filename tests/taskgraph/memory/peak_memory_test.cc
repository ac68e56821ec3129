#include "taskgraph/memory/peak_memory.h"

#include <gmock/gmock.h>

#include "sim/simulate.h"
#include "tests/taskgraph/expansion.h"

namespace pipesim {
namespace {

using Sizes = std::vector<std::int64_t>;
using PerCategory = std::array<Bytes, kMemoryCategories>;

PerCategory categories(std::int64_t weights, std::int64_t gradients, std::int64_t state,
                       std::int64_t activations, std::int64_t transfers, std::int64_t activation_gradients) {
  return {Bytes(weights),     Bytes(gradients), Bytes(state),
          Bytes(activations), Bytes(transfers), Bytes(activation_gradients)};
}

std::vector<DeviceMemory> peaks_of(Expansion& e) { return peak_memory(e.expanded, simulate(e.tasks.dag)); }

// w1 has 48 elements, w2 16; y1 is 128 B, y2 32 B.
OperatorGraph linears_without_bias() {
  GraphBuilder b("two", 4);
  const TensorId y1 = b.add("linear", "fc1", {b.data("x", {4, 6})}, {{"out", Sizes{8}}, {"bias", 0}});
  b.add("linear", "fc2", {y1}, {{"out", Sizes{2}}, {"bias", 0}});
  return b.build();
}

TEST(PeakMemory, OfTwoLinearsOnOneDevice) {
  Expansion e(linears_without_bias(), "p100-4x4", {});
  const std::vector<DeviceMemory> peaks = peaks_of(e);
  // While fc2's backward reads y1 and writes its gradient. y2 ends where that begins: freed before it is
  // allocated.
  EXPECT_EQ(peaks[0].at_peak, categories(256, 256, 256, 128, 0, 128));
  EXPECT_EQ(peaks[0].peak, Bytes(1024));
  EXPECT_EQ(peaks[0].when, e.tasks.dag.duration(TaskId(0)) +
                               e.tasks.dag.duration(e.expanded.tasks_of(OperatorId(1)).forward));
  EXPECT_EQ(allocated_memory(e.expanded)[0], Bytes(768 + 128 + 32 + 128));
  EXPECT_EQ(peaks[1].peak, Bytes(0));
}

// fc1 and fc3 are not trained: no gradient and no state, and fc3 does not keep y2 for a gradient of its
// weight.
TEST(PeakMemory, OfFrozenWeightsIsThatOfTheirValues) {
  GraphBuilder b("adapted", 4);
  const auto linear = [&](const std::string& name, TensorId x, std::int64_t out, bool frozen) {
    return b.add_operator({"linear", name, {x}, {{"out", Sizes{out}}, {"bias", 0}}, {}, {}, "", frozen})[0];
  };
  const TensorId y1 = linear("fc1", b.data("x", {4, 6}), 8, true), y2 = linear("fc2", y1, 2, false);
  linear("fc3", y2, 5, true);
  Expansion e(b.build(), "p100-4x4", {});
  const std::vector<WeightMemory> held = e.contents.permanent_memory(e.bound);
  EXPECT_EQ(held[0].weights, Bytes(4 * (48 + 16 + 10)));
  EXPECT_EQ(held[0].gradients, Bytes(4 * 16));
  EXPECT_EQ(held[0].optimizer_state, Bytes(4 * 16));
  EXPECT_EQ(e.contents.backward().owned_weights(OperatorId(0)).size(), 0U);
  EXPECT_EQ(e.contents.backward().frozen_weights().size(), 2U);
  EXPECT_FALSE(e.contents.graph().op(OperatorId(2)).uses[0].saved);
  EXPECT_TRUE(e.contents.graph().op(OperatorId(1)).uses[0].saved);
}

// While a pass of fc2 runs, its weight of 8 · 1024 elements is there in float32, too.
TEST(PeakMemory, OfStoredWeightsIsThatOfTheirBitsAndOfOneInItsType) {
  GraphBuilder b("stored", 4);
  const TensorId y = b.add("linear", "fc1", {b.data("x", {4, 6})}, {{"out", Sizes{8}}, {"bias", 0}});
  b.freeze(true);
  b.add("linear", "fc2", {y}, {{"out", Sizes{1024}}, {"bias", 0}, {"stored", "4bit"}});
  Expansion e(b.build(), "p100-4x4", {});
  const Bytes stored(4226);  // 8192 · (4 + 8/64 + 32/16384) / 8
  EXPECT_EQ(e.contents.permanent_memory(e.bound)[0].weights, Bytes(4 * 48) + stored);
  EXPECT_EQ(e.bound[1]->memory[0].in_forward(), Bytes(4 * 8192));
  EXPECT_EQ(e.bound[0]->memory[0].in_forward(), Bytes(0));
  const std::vector<DeviceMemory> peaks = peaks_of(e);
  const auto activations = static_cast<std::size_t>(MemoryCategory::Activations);
  EXPECT_EQ(peaks[0].at_peak[activations], Bytes(4 * 8192 + 4 * 4 * 1024 + 4 * 4 * 8));
}

TEST(PeakMemory, CountsReceiveBuffersWhereTheyLie) {
  Expansion e(linears_without_bias(), "p100-4x4", {{"fc2", {{}, {1}}}});
  const std::vector<DeviceMemory> peaks = peaks_of(e);
  // Device 0 keeps y1 until it is sent, later receives its gradient. Device 1 keeps the copy for its
  // backward.
  EXPECT_EQ(peaks[0].at_peak, categories(192, 192, 192, 128, 0, 0));
  EXPECT_EQ(peaks[1].at_peak, categories(64, 64, 64, 0, 128, 128));
  EXPECT_EQ(allocated_memory(e.expanded)[0], Bytes(576 + 128 + 128));
  EXPECT_EQ(allocated_memory(e.expanded)[1], Bytes(192 + 128 + 32 + 128));
}

TEST(PeakMemory, DataParallelDevicesHoldAllWeights) {
  Expansion e(linears_without_bias(), "p100-4x4",
              {{"fc1", {{{"b", 4}}, devices_from(0, 4)}}, {"fc2", {{{"b", 4}}, devices_from(0, 4)}}});
  std::vector<DeviceMemory> peaks = peaks_of(e);
  peaks.resize(4);
  for (const DeviceMemory& p : peaks) EXPECT_EQ(p.at_peak, categories(256, 256, 256, 32, 0, 32));
}

TEST(PeakMemory, TensorParallelDevicesShareTheWeights) {
  Expansion e(linears_without_bias(), "p100-4x4",
              {{"fc1", {{{"o", 4}}, devices_from(0, 4)}}, {"fc2", {{{"i", 4}}, devices_from(0, 4)}}});
  const std::vector<WeightMemory> held = e.contents.permanent_memory(e.bound);
  for (std::size_t d = 0; d < 4; ++d) EXPECT_EQ(held[d].weights, Bytes(64));
}

// The head reads 4 rows of 3, which have a weight behind them; of 5 words. In 4 parts there is one row of
// logits at a time.
OperatorGraph head_in_chunks(std::int64_t chunks) {
  GraphBuilder b("head", 4);
  const TensorId labels = b.data("labels", {4}, DataType::Int64);
  const TensorId x = b.add("linear", "fc", {b.data("x", {4, 6})}, {{"out", Sizes{3}}, {"bias", 0}});
  if (chunks > 0) {
    b.add("linear_cross_entropy", "loss", {x, labels}, {{"out", 5}, {"chunks", chunks}});
  } else {
    const TensorId logits = b.add("linear", "projection", {x}, {{"out", Sizes{5}}, {"bias", 0}});
    b.add("cross_entropy", "loss", {logits, labels});
  }
  return b.build();
}

TEST(PeakMemory, OfALossInChunksHasThePartsLogitsAlone) {
  const std::int64_t weights = 4 * (18 + 15), x = 4 * 12, logits = 4 * 20, log_sums = 4 * 4;
  Expansion apart(head_in_chunks(0), "p100-4x4", {});
  // The logits and their gradient.
  EXPECT_EQ(peaks_of(apart)[0].at_peak,
            categories(weights, weights, weights, x + logits + log_sums, 0, logits));
  for (const std::int64_t chunks : {1, 2, 3, 4, 9}) {
    Expansion e(head_in_chunks(chunks), "p100-4x4", {});
    const std::int64_t rows = (4 + chunks - 1) / chunks;
    // While backward runs, which writes the gradient of x.
    EXPECT_EQ(peaks_of(e)[0].at_peak,
              categories(weights, weights, weights, x + log_sums + rows * 5 * 4, 0, x))
        << chunks;
  }
}

TEST(PeakMemory, OptimizersKeepTheirState) {
  for (const auto& [optimizer, bytes] :
       {std::pair(Optimizer::Sgd, 0), std::pair(Optimizer::Momentum, 256), std::pair(Optimizer::Adam, 512)}) {
    PlanOptions options;
    options.optimizer = optimizer;
    Expansion e(linears_without_bias(), "p100-4x4", {}, options);
    EXPECT_EQ(e.contents.permanent_memory(e.bound)[0].optimizer_state, Bytes(bytes))
        << Optimizer(optimizer).str();
  }
}

TEST(PeakMemory, OfSeveralMicrobatchesIsThatOfOneAfterTheOther) {
  PlanOptions options;
  options.microbatches = 3;
  Expansion once(linears_without_bias(), "p100-4x4", {}),
      thrice(linears_without_bias(), "p100-4x4", {}, options);
  const DeviceMemory one = peaks_of(once)[0], three = peaks_of(thrice)[0];
  EXPECT_EQ(three.at_peak, one.at_peak);
  EXPECT_EQ(three.when, one.when);
  EXPECT_EQ(allocated_memory(thrice.expanded)[0], Bytes(768 + 3 * (128 + 32 + 128)));
}

TEST(PeakMemory, WeightsThatNoLossTrainsAreHeldToo) {
  GraphBuilder b("frozen", 4);
  const TensorId x = b.data("x", {4, 6});
  b.add("linear", "aside", {x}, {{"out", Sizes{8}}, {"bias", 0}});
  const TensorId y = b.add("linear", "fc", {x}, {{"out", Sizes{2}}, {"bias", 0}});
  b.add("cross_entropy", "loss", {y, b.data("labels", {4}, DataType::Int64)});
  Expansion e(b.build(), "p100-4x4", {{"aside", {{{"o", 2}}, {2, 3}}}});
  const std::vector<WeightMemory> held = e.contents.permanent_memory(e.bound);
  EXPECT_EQ(held[0], (WeightMemory{Bytes(48), Bytes(48), Bytes(48)}));
  EXPECT_EQ(held[2], (WeightMemory{Bytes(96), Bytes(0), Bytes(0)}));
}

TEST(MemoryShortage, NamesTheDeviceThatLacksMostAndCountsTheOthers) {
  const Topology topology = make_topology("p100-4x4");  // 16 GB each
  std::vector<DeviceMemory> peaks(topology.num_devices());
  EXPECT_EQ(memory_shortage(peaks, topology), std::nullopt);
  EXPECT_EQ(memory_overflow(peaks, topology), Bytes(0));
  EXPECT_EQ(largest_shortage(peaks, topology), Bytes(0));
  const Bytes capacity = topology.kind(DeviceId(0)).memory;
  peaks[3].peak = capacity;
  EXPECT_EQ(memory_shortage(peaks, topology), std::nullopt);
  peaks[6].peak = capacity + Bytes(2'000'000'000);
  const std::string first =
      fmt::format("node1.gpu2 needs {}, has {}", pretty(peaks[6].peak), pretty(capacity));
  EXPECT_EQ(memory_shortage(peaks, topology), first);
  peaks[7].peak = capacity + Bytes(1);
  EXPECT_EQ(memory_shortage(peaks, topology), first + " (and 1 more device)");
  peaks[8].peak = capacity + Bytes(1);
  EXPECT_EQ(memory_shortage(peaks, topology), first + " (and 2 more devices)");
  EXPECT_EQ(memory_overflow(peaks, topology), Bytes(2'000'000'002));
  EXPECT_EQ(largest_shortage(peaks, topology), Bytes(2'000'000'000));
  peaks[2].peak = capacity + Bytes(1'000'000'000);  // comes first and lacks less
  EXPECT_EQ(memory_shortage(peaks, topology), first + " (and 3 more devices)");
  peaks[2].peak = peaks[6].peak;
  EXPECT_EQ(memory_shortage(peaks, topology), fmt::format("node0.gpu2 needs {}, has {} (and 3 more devices)",
                                                          pretty(peaks[6].peak), pretty(capacity)));
}

TEST(MemoryShortage, CountsCommunicators) {
  const Topology topology = make_topology("dgx-h100");
  std::vector<DeviceMemory> peaks(topology.num_devices());
  peaks[2].peak = Bytes(79'500'000'000);
  EXPECT_EQ(memory_shortage(peaks, topology), std::nullopt);
  peaks[2].communicators = 4;
  EXPECT_EQ(memory_shortage(peaks, topology),
            "gpu2 needs 79.5 GB, has 85.5 GB, of which frameworks and 4 communicators leave 79.1 GB");
  peaks[2].communicators = 150;
  EXPECT_EQ(memory_shortage(peaks, topology),
            "gpu2 needs 79.5 GB, has 85.5 GB, of which frameworks and 150 communicators leave nothing");
  EXPECT_GT(largest_shortage(peaks, topology), peaks[2].peak);
}

TEST(MemoryShortage, CountsWhatTheMarginTakes) {
  const Topology whole = make_topology("p100-4x4");  // 16 GB each
  const Topology topology = whole.with_memory_margin(MemoryMargin::parse("2 GB"));
  std::vector<DeviceMemory> peaks(topology.num_devices());
  peaks[6].peak = topology.usable_memory(DeviceId(6));
  EXPECT_EQ(peaks[6].peak, Bytes(14'000'000'000));
  EXPECT_EQ(memory_shortage(peaks, topology), std::nullopt);
  peaks[6].peak += Bytes(1'000'000'000);
  EXPECT_EQ(memory_shortage(peaks, topology), "node1.gpu2 needs 15 GB, has 16 GB less a margin of 2 GB");
  EXPECT_EQ(memory_overflow(peaks, topology), Bytes(1'000'000'000));
  EXPECT_EQ(memory_shortage(peaks, whole), std::nullopt);
}

TEST(MemoryCategory, HasNames) {
  std::vector<std::string> names;
  for (std::size_t c = 0; c < kMemoryCategories; ++c)
    names.emplace_back(name_of(static_cast<MemoryCategory>(c)));
  EXPECT_THAT(names, testing::ElementsAre("weights", "gradients", "optimizer state", "activations",
                                          "transfer buffers", "activation gradients", "stashed weights",
                                          "gathered weights"));
}

}  // namespace
}  // namespace pipesim
