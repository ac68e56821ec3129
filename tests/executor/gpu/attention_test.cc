#include "executor/gpu/kernels/attention.h"

#include <array>
#include <memory>
#include <utility>
#include <vector>

#include "executor/gpu/kernels/kernel_table.h"
#include "tests/executor/cpu/kernel_checks.h"
#include "tests/executor/gpu/host_machine.h"
#include "tests/executor/gpu/kernel_on_machine.h"

namespace pipesim::gpu {
namespace {

cpu::KernelCase grouped_case(Bench& bench, std::int64_t groups, std::int64_t members, bool causal) {
  const TensorId q = bench.x({3, 9, groups, members, 2}), k = bench.x({3, 9, groups, 2}),
                 v = bench.x({3, 9, groups, 4});
  const Attributes attributes{{"causal", causal ? 1 : 0}, {"buckets", 8}, {"farthest", 9}, {"dropout", 0.25}};
  cpu::KernelCase c{bench.op("scored_attention", {q, k, v}, attributes), {}};
  c.step = {.seed = 3, .step = 2, .microbatch = 1, .microbatches = 2};
  return c;
}

// Results are the same as on CPUs, in blocks of any lengths, packed or not.
TEST(AttentionOnGpus, IsTheSameHoweverItIsCut) {
  const std::array<AttentionLimits, 4> all_limits{
      AttentionLimits{.large_sample = 0},
      AttentionLimits{.score_bytes = 400, .causal_blocks = 3, .shortest_block = 2},
      AttentionLimits{.score_bytes = 1, .causal_blocks = 2, .shortest_block = 1, .large_sample = 0},
      AttentionLimits{.score_bytes = 3000, .causal_blocks = 2, .shortest_block = 1, .large_sample = 0}};
  HostMachine machine;
  for (const AttentionLimits& limits : all_limits) {
    const auto kernel = attention_kernel(limits);
    for (const DataType type : {DataType::Float32, DataType::BFloat16}) {
      const KernelOnMachine on_machine(*kernel, machine, type);
      for (const auto& [groups, members] : {std::pair{2, 1}, {1, 2}, {2, 2}}) {
        for (const bool causal : {false, true}) {
          Bench bench(3);
          const cpu::KernelCase c = grouped_case(bench, groups, members, causal);
          cpu::KernelCase first = c, other = c;
          first.tested = {cpu::find_kernel("scored_attention")};
          other.tested = {&on_machine, type};
          const testing::ScopedTrace trace(
              __FILE__, __LINE__,
              fmt::format("{} groups of {}, {} bytes of scores", groups, members, limits.score_bytes));
          check_other(other, first);
          if (type == DataType::Float32) check_splits(other, 4);
        }
      }
    }
  }
}

// Positions in zigzag order, of four chunks or eight, as on CPUs: all kinds that know positions, in blocks of
// any lengths and split at random.
TEST(ZigzagOnGpus, IsTheSameAsOnCpus) {
  HostMachine machine;
  const auto check = [&](const Operator& op, const Kernel& kernel) {
    ASSERT_GT(op.zigzag, 1);
    const testing::ScopedTrace trace(__FILE__, __LINE__, fmt::format("{} zigzag={}", op.kind, op.zigzag));
    for (const DataType type : {DataType::Float32, DataType::BFloat16}) {
      const KernelOnMachine on_machine(kernel, machine, type);
      cpu::KernelCase first{op, {}};
      first.step = {.seed = 3, .step = 2, .microbatch = 1, .microbatches = 2};
      cpu::KernelCase other = first;
      first.tested = {cpu::find_kernel(op.kind)};
      other.tested = {&on_machine, type};
      check_other(other, first);
      if (type == DataType::Float32) check_splits(other, 10);
    }
  };
  for (const std::int64_t zigzag : {2, 4}) {
    Bench bench(2);
    const TensorId q = bench.x({2, 16, 2, 2, 3}), k = bench.x({2, 16, 2, 3}), v = bench.x({2, 16, 2, 4});
    for (const AttentionLimits& limits :
         {AttentionLimits{}, AttentionLimits{.score_bytes = 400, .causal_blocks = 3, .shortest_block = 2},
          AttentionLimits{.large_sample = 0}}) {
      const auto kernel = attention_kernel(limits);
      const Attributes causal{{"causal", 1}, {"zigzag", zigzag}};
      check(bench.op("attention", {q, k, v}, causal), *kernel);
      check(bench.op("alibi_attention", {q, k, v}, causal), *kernel);
      Attributes learned = causal;
      learned["buckets"] = 8, learned["farthest"] = 9;
      check(bench.op("relative_attention", {q, k, v}, learned), *kernel);
      learned["dropout"] = 0.25;
      check(bench.op("scored_attention", {q, k, v}, learned), *kernel);
    }
    check(bench.op("rotary", {bench.x({2, 16, 3, 4})}, {{"zigzag", zigzag}}), *find_kernel("rotary"));
  }
}

// Masks that leave out keys before a query, sinks and caps, in blocks of any lengths and split at random.
TEST(NarrowMasksOnGpus, AreTheSameAsOnCpus) {
  HostMachine machine;
  const auto check = [&](const Operator& op, const Kernel& kernel) {
    const testing::ScopedTrace trace(__FILE__, __LINE__, op.kind);
    for (const DataType type : {DataType::Float32, DataType::BFloat16, DataType::Float16}) {
      const KernelOnMachine on_machine(kernel, machine, type);
      cpu::KernelCase first{op, {}};
      cpu::KernelCase other = first;
      first.tested = {cpu::find_kernel(op.kind)};
      other.tested = {&on_machine, type};
      check_other(other, first);
      if (type == DataType::Float32) check_splits(other, 10);
    }
  };
  Bench bench(2);
  const TensorId q = bench.x({2, 16, 2, 2, 3}), k = bench.x({2, 16, 2, 3}), v = bench.x({2, 16, 2, 4});
  for (const AttentionLimits& limits :
       {AttentionLimits{}, AttentionLimits{.score_bytes = 400, .causal_blocks = 3, .shortest_block = 2}}) {
    const auto kernel = attention_kernel(limits);
    for (const std::int64_t zigzag : {1, 2}) {
      const Attributes window{{"causal", 1}, {"zigzag", zigzag}, {"window", 5}, {"sinks", 1}};
      Attributes capped = window, learned = window;
      capped["cap"] = 1.5, capped["document_length"] = 6;
      learned["buckets"] = 8, learned["farthest"] = 9;
      check(bench.op("attention", {q, k, v}, capped), *kernel);
      check(bench.op("alibi_attention", {q, k, v}, window), *kernel);
      check(bench.op("relative_attention", {q, k, v}, learned), *kernel);
    }
  }
}

// A bucket that begins at a whole distance, as T5's with 32 buckets up to 128 (Raffel et al., 2020) do at
// powers of two, has that distance whatever a device's logarithm rounds to.
TEST(RelativeBuckets, BeginWhereTheirDistanceIsWhole) {
  Bench bench(2);
  const TensorId q = bench.x({2, 4, 1, 1, 2}), k = bench.x({2, 4, 1, 2});
  const Attributes attributes{{"buckets", 32}, {"farthest", 128}};
  const RelativeBuckets buckets(bench.op("relative_attention", {q, k, k}, attributes));
  const std::vector<std::pair<std::int64_t, std::int64_t>> expected{
      {0, 0},   {7, 7},   {8, 8},   {15, 9},   {16, 10},  {31, 11},
      {32, 12}, {63, 13}, {64, 14}, {127, 15}, {128, 15}, {999, 15}};
  for (const auto& [distance, bucket] : expected) {
    EXPECT_EQ(buckets.of(-distance), bucket) << distance;
    EXPECT_EQ(buckets.of(distance), distance == 0 ? bucket : 16 + bucket) << distance;
  }
}

// What a shard of scores takes, however long the sequence.
TEST(AttentionOnGpus, HoldsSoManyScoresAtATime) {
  Bench bench(8);
  const auto lengths = [&](std::int64_t length, bool causal) {
    const TensorId q = bench.x({8, length, 16, 1, 64}), k = bench.x({8, length, 16, 64});
    const Operator& op = bench.op("attention", {q, k, k}, {{"causal", causal ? 1 : 0}});
    return BlockLengths(AttentionSizes(op, whole_ranges(op)), 6, AttentionLimits{});
  };
  EXPECT_EQ(lengths(1024, false).queries, 1024);
  EXPECT_EQ(lengths(1024, false).heads, 64);  // two blocks of all 128, of which 85 would have room
  EXPECT_EQ(lengths(1024, true).queries, 512);
  EXPECT_EQ(lengths(1024, true).heads, 128);
  EXPECT_EQ(lengths(65536, true).queries, 1365);
  EXPECT_EQ(lengths(65536, true).heads, 1);
}

}  // namespace
}  // namespace pipesim::gpu
