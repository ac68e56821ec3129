#include "executor/gpu/steps/optimizer.h"

#include <gmock/gmock.h>

#include <vector>

#include "executor/cpu/optimizer.h"
#include "executor/gpu/steps/kernel_call.h"
#include "tests/executor/gpu/host_machine.h"

namespace pipesim::gpu {
namespace {

using testing::FloatNear;
using testing::Pointwise;

constexpr OptimizerSettings settings{.learning_rate = 0.05F};
constexpr std::int64_t averaged = 4, changes = 2;

std::vector<float> drawn(std::size_t n, Rng& rng) {
  std::vector<float> numbers(n);
  for (float& x : numbers) x = static_cast<float>(rng.uniform() * 2 - 1);
  return numbers;
}

// The same steps by cpu::update() and on a machine, some of whose numbers are kept in 16 bits.
struct Trainings {
  Trainings(const Optimizer& optimizer, std::size_t n, bool narrow, int team) : machine({.team = team}) {
    Rng rng(n);
    expected = found = drawn(n, rng);
    std::vector<float> first(n), second(n), device_first(n), device_second(n);
    rounded.resize(n);
    const auto stream = machine.make_stream(DeviceId(0), StreamUse::Compute);
    for (DeviceStep step; step.step < 3; ++step.step) {
      for (std::int64_t change = 0; change < changes; ++change) {
        std::vector<float> gradient = drawn(n, rng);
        std::vector<std::uint16_t> narrow_gradient(n);
        for (std::size_t i = 0; i < n; ++i) {
          narrow_gradient[i] = to_float16(gradient[i]);
          if (narrow) gradient[i] = from_float16(narrow_gradient[i]);
        }
        TrainedWeights trained{.weights = {found.data()},
                               .master = {},
                               .gradient = {gradient.data()},
                               .first = {device_first.data()},
                               .second = {device_second.data()},
                               .elements = static_cast<std::int64_t>(n)};
        if (narrow) {
          trained.master = trained.weights;
          trained.weights = {rounded.data(), Stored::BFloat16};
          trained.gradient = {narrow_gradient.data(), Stored::Float16};
        }
        gpu::update(*stream, optimizer, settings, trained, averaged, {&step.step, changes, change});
        stream->finish();
        for (float& g : gradient) g /= static_cast<float>(averaged);
        cpu::update(optimizer, settings, expected, gradient, first, second, step.step * changes + change + 1);
      }
    }
  }
  HostMachine machine;
  std::vector<float> expected, found;
  std::vector<std::uint16_t> rounded;
};

class GpuOptimizer : public testing::TestWithParam<Optimizer> {};

TEST_P(GpuOptimizer, TrainsAsTheCpus) {
  for (const std::size_t n : {std::size_t{1}, std::size_t{5000}}) {
    for (const int team : {1, 3}) {
      const Trainings t(GetParam(), n, false, team);
      EXPECT_THAT(t.found, Pointwise(FloatNear(2e-6F), t.expected));
    }
  }
}

TEST_P(GpuOptimizer, RoundsMasterWeights) {
  const Trainings t(GetParam(), 300, true, 1);
  EXPECT_THAT(t.found, Pointwise(FloatNear(2e-6F), t.expected));
  for (std::size_t i = 0; i < t.found.size(); ++i) EXPECT_EQ(t.rounded[i], to_bfloat16(t.found[i]));
}

TEST_P(GpuOptimizer, LeavesNoWeightsAlone) {
  const Trainings t(GetParam(), 0, false, 1);
  EXPECT_EQ(t.machine.done(), 0);
}

// Moments are rounded when they are kept, after the weights have used them.
TEST(GpuOptimizerState, HasMomentsOfSixteenBits) {
  constexpr std::size_t n = 300;
  Rng rng(n);
  HostMachine machine({.team = 1});
  std::vector<float> expected = drawn(n, rng), found = expected, gradient = drawn(n, rng);
  std::vector<float> first(n), second(n);
  std::vector<std::uint16_t> narrow_first(n), narrow_second(n);
  const auto stream = machine.make_stream(DeviceId(0), StreamUse::Compute);
  const DeviceStep step;
  gpu::update(*stream, Optimizer(Optimizer::Adam, DataType::BFloat16), settings,
              {.weights = {found.data()},
               .master = {},
               .gradient = {gradient.data()},
               .first = {narrow_first.data(), Stored::BFloat16},
               .second = {narrow_second.data(), Stored::BFloat16},
               .elements = n},
              1, {&step.step, 1, 0});
  stream->finish();
  cpu::update(Optimizer::Adam, settings, expected, gradient, first, second, 1);
  EXPECT_THAT(found, Pointwise(FloatNear(2e-6F), expected));
  for (std::size_t i = 0; i < n; ++i) {
    EXPECT_EQ(narrow_first[i], to_bfloat16(first[i]));
    EXPECT_EQ(narrow_second[i], to_bfloat16(second[i]));
  }
}

INSTANTIATE_TEST_SUITE_P(All, GpuOptimizer,
                         testing::Values(Optimizer::Sgd, Optimizer::Momentum, Optimizer::Adam,
                                         Optimizer::Lion),
                         [](const auto& tested) { return tested.param.str(); });

}  // namespace
}  // namespace pipesim::gpu
