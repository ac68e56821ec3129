#include "taskgraph/expansion/task_keys.h"

#include <gtest/gtest.h>

#include <vector>

#include "sim/base/rng.h"

namespace pipesim {
namespace {

// Keys compare as their parts do, one after the other, however large these are.
TEST(TaskKeys, OrderIsThatOfKindMicrobatchOperatorAndStage) {
  struct Parts {
    TaskKind kind;
    std::int32_t microbatch, op, stage;
    auto operator<=>(const Parts&) const = default;
  };
  Rng rng(3);
  const auto random = [&] {
    const auto below = [&](std::int32_t most) {  // small and large ones
      const auto bound = static_cast<std::uint64_t>(rng.below(2) == 0 ? 3 : most);
      return static_cast<std::int32_t>(rng.below(2) == 0 ? bound - 1 : rng.below(bound));
    };
    return Parts{rng.below(2) == 0 ? TaskKind::Forward : TaskKind::BackwardWeight, below(kMostMicrobatches),
                 below(1 << 22), below(1 << 17)};
  };
  const auto key = [](const Parts& p) {
    return compute_key(p.kind, p.microbatch, OperatorId(p.op), static_cast<std::size_t>(p.stage),
                       DeviceId(0));
  };
  for (int i = 0; i < 20'000; ++i) {
    const Parts a = random(), b = random();
    EXPECT_EQ(a <=> b, key(a) <=> key(b)) << "seed 3, pair " << i;
    const auto gate = [](const Parts& p) {
      return recompute_gate_key(p.microbatch, static_cast<std::size_t>(p.op), DeviceId(0));
    };
    if (a.microbatch != b.microbatch) {
      EXPECT_EQ(a.microbatch < b.microbatch, gate(a) < gate(b));
    }
    EXPECT_NE(gate(a), version_gate_key(b.microbatch, static_cast<std::size_t>(b.op), DeviceId(0)));
    EXPECT_NE(gate(a), barrier_key(static_cast<std::size_t>(b.microbatch), DeviceId(0)));
    EXPECT_NE(key(a), barrier_key(static_cast<std::size_t>(b.microbatch), DeviceId(0)));
  }
}

}  // namespace
}  // namespace pipesim
