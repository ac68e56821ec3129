#include <gmock/gmock.h>

#include "costmodel/cost_model.h"
#include "sim/base/errors.h"
#include "tests/costmodel/samples.h"

namespace pipesim {
namespace {

using testing::DoubleNear;
using testing::ThrowsMessage;

WeightMemory memory(DataType type, DataType gradient, Optimizer optimizer) {
  return CostModel::weight_memory(10, type, gradient, optimizer);
}

TEST(WeightMemory, CountsWeightsGradientsAndState) {
  using enum DataType;
  EXPECT_EQ(memory(Float32, Float32, Optimizer::Sgd), (WeightMemory{Bytes(40), Bytes(40), Bytes(0)}));
  EXPECT_EQ(memory(Float32, Float32, Optimizer::Momentum), (WeightMemory{Bytes(40), Bytes(40), Bytes(40)}));
  EXPECT_EQ(memory(Float32, Float32, Optimizer::Adam), (WeightMemory{Bytes(40), Bytes(40), Bytes(80)}));
}

TEST(WeightMemory, KeepsAMasterCopyOfHalfPrecision) {
  using enum DataType;
  // Rajbhandari et al., ZeRO, section 3.1: 2 + 2 + 12 bytes a parameter with Adam.
  EXPECT_EQ(memory(BFloat16, BFloat16, Optimizer::Adam), (WeightMemory{Bytes(20), Bytes(20), Bytes(120)}));
  EXPECT_EQ(memory(Float16, Float32, Optimizer::Sgd), (WeightMemory{Bytes(20), Bytes(40), Bytes(40)}));
}

TEST(UpdateTime, IsBoundByMemory) {
  Topology topology = switched({2});
  CostModel costs(topology);
  auto seconds = [&](DataType type, Optimizer optimizer) {
    return (costs.update_time(1'000'000, type, optimizer, DeviceId(1)) - Seconds(2e-6)).value;
  };
  // Bytes per weight over 0.8 TB/s.
  EXPECT_THAT(seconds(DataType::Float32, Optimizer::Sgd), DoubleNear(12e6 / 0.8e12, 1e-12));
  EXPECT_THAT(seconds(DataType::Float32, Optimizer::Momentum), DoubleNear(20e6 / 0.8e12, 1e-12));
  EXPECT_THAT(seconds(DataType::Float32, Optimizer::Adam), DoubleNear(28e6 / 0.8e12, 1e-12));
  EXPECT_THAT(seconds(DataType::BFloat16, Optimizer::Adam), DoubleNear(28e6 / 0.8e12, 1e-12));
  EXPECT_EQ(costs.update_time(0, DataType::Float32, Optimizer::Adam, DeviceId(0)), Seconds(0));
}

TEST(Optimizer, HasNames) {
  for (Optimizer optimizer : {Optimizer::Sgd, Optimizer::Momentum, Optimizer::Adam}) {
    EXPECT_EQ(parse_optimizer(name_of(optimizer)), optimizer);
  }
  EXPECT_THAT([] { parse_optimizer("adma"); },
              ThrowsMessage<InputError>(
                  "unknown optimizer \"adma\": allowed are sgd, momentum, adam (did you mean \"adam\"?)"));
}

}  // namespace
}  // namespace pipesim
