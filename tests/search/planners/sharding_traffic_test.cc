#include "search/planners/sharding_traffic.h"

#include <gtest/gtest.h>

#include "models/zoo/zoo.h"

namespace pipesim {
namespace {

constexpr const char* kNarrow =
    "llama:batch=2,layers=1,hidden=16,heads=4,kv_heads=2,vocab=48,sequence=8,ffn=24,dtype=bfloat16";

ShardingTraffic traffic_of(const char* sharding, DataType gradients) {
  PlanOptions options;
  options.gradient_type = gradients;
  options.state_sharding = parse_state_sharding(sharding);
  return sharding_traffic(make_zoo_model(kNarrow), options);
}

// An all-reduce is a reduce-scatter and an all-gather: ZeRO-1 moves as much, ZeRO-3 half as much again
// (Rajbhandari et al., section 7).
TEST(ShardingTraffic, IsThatOfThePaperInOneType) {
  constexpr DataType type = DataType::BFloat16;
  EXPECT_EQ(traffic_of("none", type), (ShardingTraffic{0, 1, false}));
  EXPECT_EQ(traffic_of("zero1", type), (ShardingTraffic{0, 1, false}));
  EXPECT_EQ(traffic_of("zero2", type), (ShardingTraffic{0.5, 0.5, false}));
  EXPECT_EQ(traffic_of("zero3", type), (ShardingTraffic{1.5, 0, true}));
  EXPECT_EQ(traffic_of("zero3,reshard=never", type), (ShardingTraffic{1, 0, true}));
}

TEST(ShardingTraffic, CountsTypesAndWhenWeightsAreGathered) {
  EXPECT_EQ(traffic_of("zero1", DataType::Float32), (ShardingTraffic{0, 1.5, false}));
  EXPECT_EQ(traffic_of("zero1,gather=float32", DataType::Float32), (ShardingTraffic{0, 2, false}));
  EXPECT_EQ(traffic_of("zero1,overlap=gather", DataType::Float32), (ShardingTraffic{0, 1, false}));
  EXPECT_EQ(traffic_of("zero2,overlap=gather", DataType::Float32), (ShardingTraffic{1, 0, false}));
  EXPECT_EQ(traffic_of("zero3,weights=float32", DataType::Float32), (ShardingTraffic{2, 0, true}));
}

}  // namespace
}  // namespace pipesim
