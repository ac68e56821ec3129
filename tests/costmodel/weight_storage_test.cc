#include <gmock/gmock.h>

#include <string>
#include <vector>

#include "costmodel/cost_model.h"
#include "costmodel/shard_kernel.h"
#include "models/box.h"
#include "models/graph_builder.h"
#include "topologies/presets/presets.h"

namespace pipesim {
namespace {

constexpr std::int64_t kSamples = 16, kStoredIn = 4096, kStoredOut = 8192;
constexpr double kFourBits = 4 + 8 / 64.0 + 32 / (64.0 * 256);

// A trained weight, and behind it a frozen one that is stored in some way; both in bfloat16.
OperatorGraph stored_products(const std::string& stored) {
  GraphBuilder b("two", kSamples, DataType::BFloat16);
  const TensorId x = b.data("x", {kSamples, kStoredIn});
  const TensorId y = b.add("linear", "trained", {x}, {{"out", std::vector{kStoredIn}}, {"bias", 0}});
  b.freeze(true);
  b.add("linear", "frozen", {y}, {{"out", std::vector{kStoredOut}}, {"bias", 0}, {"stored", stored}});
  return b.build();
}

class WeightStorageTest : public testing::Test {
 protected:
  static double unpacked(const OperatorGraph& graph, std::size_t op, Pass pass) {
    const Operator& one = graph.operators()[op];
    return shard_kernel(graph, one, pass, whole_ranges(one)).work.unpacked_bytes;
  }

  Topology topology_ = make_topology("dgx-h100:gpus=1");
  OperatorGraph four_ = stored_products("4bit"), eight_ = stored_products("8bit"),
                own_ = stored_products("own");
};

// They are read in 4 bits and written in 2 bytes, before forward and before the gradient of the input. There
// is no pass for the weight's gradient.
TEST_F(WeightStorageTest, BringsWeightsIntoTheirTypeBeforeEachProduct) {
  const double elements = 1.0 * kStoredIn * kStoredOut;
  for (const Pass pass : {Pass::Forward, Pass::BackwardInput}) {
    EXPECT_DOUBLE_EQ(unpacked(four_, 1, pass), elements * (kFourBits / 8 + 2));
    EXPECT_DOUBLE_EQ(unpacked(eight_, 1, pass), elements * (1 + 2));
    EXPECT_EQ(unpacked(own_, 1, pass), 0);
    EXPECT_EQ(unpacked(four_, 0, pass), 0);
  }
  const Operator& frozen = four_.operators()[1];
  EXPECT_FALSE(shard_kernel(four_, frozen, Pass::BackwardWeight, whole_ranges(frozen)).runs);
}

TEST_F(WeightStorageTest, TakesTheTimeToReadAndWriteThem) {
  const CostModel costs(topology_);
  const DeviceKind& kind = topology_.kind(DeviceId(0));
  const auto seconds = [&](const OperatorGraph& graph, Pass pass) {
    const Operator& frozen = graph.operators()[1];
    return costs.operator_time(graph, frozen, pass, whole_ranges(frozen), DeviceId(0)).value;
  };
  const double bytes = 1.0 * kStoredIn * kStoredOut * (kFourBits / 8 + 2);
  for (const Pass pass : {Pass::Forward, Pass::BackwardInput})
    EXPECT_NEAR(seconds(four_, pass) - seconds(own_, pass),
                bytes / (kind.memory_bandwidth.value * kind.memory_efficiency), 1e-12);
}

}  // namespace
}  // namespace pipesim
