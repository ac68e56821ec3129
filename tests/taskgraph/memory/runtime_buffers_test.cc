#include "taskgraph/memory/runtime_buffers.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <string>

#include "tests/taskgraph/copies.h"

namespace pipesim {
namespace {

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
// joined and then to float32. Two buckets are no more than all gradients, and are released before the step.
TEST(Step, OfDeepspeedHoldsBucketsToo) {
  const std::int64_t all = Copies(kWide, "none").parameters(), part = all / kCopies;
  using enum DataType;
  const auto held = [](const char* sharding, DataType type, const std::string& changed = "") {
    return gradients_at_peak(sharding, type, ("deepspeed:bucket-sums=in-place" + changed).c_str());
  };
  EXPECT_EQ(held("none", BFloat16), Bytes((2 + 4 + 4) * all));
  EXPECT_EQ(held("zero1", BFloat16), Bytes((2 + 2) * all));
  EXPECT_EQ(held("zero1", BFloat16, ",buckets=1000"), Bytes(2 * all + (2 + 4) * part));
  EXPECT_EQ(held("zero2", BFloat16), Bytes(2 * all + 2 * part));
  EXPECT_EQ(held("zero2", BFloat16, ",buckets=1000"), Bytes((2 + 2 + 4) * part));
  EXPECT_EQ(Copies(kWide, "zero2", 1, BFloat16, kCopies, "deepspeed:buckets=1000").memory().gradients,
            Bytes(2 * 2000 + 2 * part));
  EXPECT_EQ(
      Copies(kWide, "zero2", 1, BFloat16, kCopies, "deepspeed:buckets=1000,overlap=never").memory().gradients,
      Bytes(2 * 1000 + 2 * part));
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

struct HeldInStep {
  Bytes all, gradients, state;
};

HeldInStep held_at_peak(const char* sharding, DataType type, const std::string& runtime,
                        const char* optimizer = "adam") {
  const Copies c(kWide, sharding, 1, type, kCopies, runtime.c_str(), parse_optimizer(optimizer));
  const DeviceMemory peak = c.peak();
  EXPECT_LE(peak.peak, allocated_memory(c.expanded)[3]);
  return {peak.peak, peak.at_peak[static_cast<std::size_t>(MemoryCategory::Gradients)],
          peak.at_peak[static_cast<std::size_t>(MemoryCategory::OptimizerState)]};
}

// Weights in 16 bits with main weights have 12 bytes of state for each that is updated, and 4 for its square
// root; one by one twice that, for the largest.
TEST(Step, OfPytorchHoldsWhatItsKernelsMake) {
  const Copies model(kWide, "none");
  const std::int64_t all = model.parameters(), part = all / kCopies;
  std::int64_t largest = 0;
  for (const Tensor& t : model.graph.tensors()) {
    if (t.kind == TensorKind::Weight) largest = std::max(largest, t.elements());
  }
  EXPECT_EQ(largest, 256 * 256);
  using enum DataType;
  const std::string one_by_one = "torch-eager:optimizer-kernel=single";
  EXPECT_EQ(held_at_peak("none", Float32, "torch-eager").all, Bytes((2 + 4 + 12 + 4) * all));
  EXPECT_EQ(held_at_peak("none", Float32, "torch-eager").state, Bytes((12 + 4) * all));
  EXPECT_EQ(held_at_peak("none", Float32, one_by_one).state, Bytes(12 * all + 2 * 4 * largest));
  EXPECT_EQ(held_at_peak("none", Float32, "torch-compile").state, Bytes(12 * all));
  EXPECT_EQ(held_at_peak("zero1", Float32, "torch-eager").state, Bytes((12 + 4) * part));
  EXPECT_EQ(held_at_peak("none", BFloat16, "torch-eager", "adam,moments=bfloat16,main=none").all,
            Bytes((2 + 2 + 4 + 2) * all));
  EXPECT_EQ(held_at_peak("none", Float32, "torch-eager", "momentum").state, Bytes(8 * all));
  EXPECT_EQ((held_at_peak("none", Float32, "torch-eager", "adafactor").state -
             held_at_peak("none", Float32, "torch-compile", "adafactor").state),
            Bytes(4 * largest));
}

// DeepSpeed frees what it joined before the optimizer runs on one float32 tensor of a device's part.
TEST(Step, OfPytorchInDeepspeedRunsOnOneTensor) {
  const std::int64_t part = Copies(kWide, "none").parameters() / kCopies;
  using enum DataType;
  const auto held = [](const char* kernel) {
    return held_at_peak("zero2", BFloat16, std::string("deepspeed:buckets=1000,optimizer-kernel=") + kernel);
  };
  EXPECT_EQ(held("fused").gradients, Bytes((2 + 2 + 4) * part));
  EXPECT_EQ(held("fused").state, Bytes(12 * part));
  EXPECT_EQ(held("foreach").gradients, Bytes((2 + 4) * part));
  EXPECT_EQ(held("foreach").state, Bytes((12 + 4) * part));
  EXPECT_EQ(held("single").gradients, Bytes((2 + 4) * part));
  EXPECT_EQ(held("single").state, Bytes((12 + 2 * 4) * part));
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
  const Copies c(model.c_str(), "zero3,prefetch=0", 1, DataType::BFloat16, kCopies,
                 "deepspeed:buckets=1000,reuse-distance=0,step-part=600000,optimizer-kernel=foreach");
  EXPECT_EQ(c.peak().at_peak[static_cast<std::size_t>(MemoryCategory::OptimizerState)],
            Bytes(12 * part + 4 * 600'000));
}

}  // namespace
}  // namespace pipesim
