#include "executor/cpu/optimizer.h"

#include <gmock/gmock.h>

#include <cmath>
#include <vector>

namespace pipesim::cpu {
namespace {

using testing::FloatNear;
using testing::Pointwise;

constexpr OptimizerSettings settings{.learning_rate = 0.1F};

/// Weights after a few steps along one gradient, and the moments that are left.
struct Trained {
  std::vector<float> weights{1, -2, 0.5F}, first{0, 0, 0}, second{0, 0, 0};
  Trained(const Optimizer& optimizer, std::int64_t steps) {
    const std::vector<float> gradient{0.5F, -1, 0};
    for (std::int64_t step = 1; step <= steps; ++step) {
      update(optimizer, settings, weights, gradient, first, second, step);
    }
  }
};

TEST(Update, SgdWalksDownTheGradient) {
  EXPECT_THAT(Trained(Optimizer::Sgd, 2).weights, Pointwise(FloatNear(1e-6F), {0.9F, -1.8F, 0.5F}));
}

TEST(Update, MomentumKeepsItsVelocity) {
  const Trained t(Optimizer::Momentum, 2);
  EXPECT_THAT(t.first, Pointwise(FloatNear(1e-6F), {0.95F, -1.9F, 0.0F}));
  EXPECT_THAT(t.weights, Pointwise(FloatNear(1e-6F), {1 - 0.145F, -2 + 0.29F, 0.5F}));
}

TEST(Update, AdamStepsByTheLearningRateWhateverTheGradientsSize) {
  const Trained t(Optimizer::Adam, 3);
  EXPECT_THAT(t.weights, Pointwise(FloatNear(1e-5F), {0.7F, -1.7F, 0.5F}));
  const float left = static_cast<float>(1 - std::pow(0.9, 3));
  EXPECT_THAT(t.first, Pointwise(FloatNear(1e-6F), {left * 0.5F, -left, 0.0F}));
}

TEST(Update, LionStepsByTheLearningRateAlongASign) {
  const Trained t(Optimizer::Lion, 3);
  EXPECT_THAT(t.weights, Pointwise(FloatNear(1e-6F), {0.7F, -1.7F, 0.5F}));
  const float left = static_cast<float>(1 - std::pow(0.99, 3));
  EXPECT_THAT(t.first, Pointwise(FloatNear(1e-6F), {left * 0.5F, -left, 0.0F}));
}

TEST(Update, SplitWeightsEndWhereWholeOnesDo) {
  const std::vector<float> gradient{1, 2, 3, 4};
  std::vector<float> whole{1, 1, 1, 1}, m(4), v(4), parts = whole, m_parts(4), v_parts(4);
  update(Optimizer::Adam, settings, whole, gradient, m, v, 1);
  for (const std::size_t first : {0U, 2U}) {
    const auto part = [first](std::vector<float>& all) { return std::span(all).subspan(first, 2); };
    update(Optimizer::Adam, settings, part(parts), std::span(gradient).subspan(first, 2), part(m_parts),
           part(v_parts), 1);
  }
  EXPECT_EQ(parts, whole);
}

}  // namespace
}  // namespace pipesim::cpu
