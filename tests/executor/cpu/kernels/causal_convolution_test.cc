#include <cmath>

#include "tests/executor/cpu/kernel_checks.h"

namespace pipesim::cpu {
namespace {

void define_causal_convolution(const Operator& op, WholeTensors& t) {
  const std::vector<std::int64_t>& shape = t[0].shape;
  const std::int64_t kernel = t[1].shape.back(),
                     channels = static_cast<std::int64_t>(t[1].elements.size()) / kernel;
  const bool bias = std::get<std::int64_t>(op.attributes.at("bias")) != 0;
  const bool silu = std::get<std::int64_t>(op.attributes.at("silu")) != 0;
  const auto at = [&](std::int64_t sample, std::int64_t position, std::int64_t channel) {
    return static_cast<std::size_t>((sample * shape[1] + position) * channels + channel);
  };
  for (std::int64_t sample = 0; sample < shape[0]; ++sample) {
    for (std::int64_t position = 0; position < shape[1]; ++position) {
      for (std::int64_t channel = 0; channel < channels; ++channel) {
        double sum = bias ? t[2].elements[static_cast<std::size_t>(channel)] : 0;
        for (std::int64_t back = 0; back < kernel && back <= position; ++back)
          sum += t[1].elements[static_cast<std::size_t>(channel * kernel + kernel - 1 - back)] *
                 t[0].elements[at(sample, position - back, channel)];
        t.back().elements[at(sample, position, channel)] = silu ? sum / (1 + std::exp(-sum)) : sum;
      }
    }
  }
}

TEST(CausalConvolutionKernel, SeesTheLastPositionsOfItsChannel) {
  if (!tests_all_kernels()) GTEST_SKIP() << "no GPU kernel computes short convolutions";
  EXPECT_FALSE(tested_kernels("causal_convolution").empty());
  Bench bench;
  check_kernel(
      {bench.op("causal_convolution", {bench.x({4, 6, 4})}, {{"kernel", 3}}), define_causal_convolution});
  check_kernel(
      {bench.op("causal_convolution", {bench.x({4, 3, 2, 2})}, {{"kernel", 4}, {"bias", 0}, {"silu", 1}}),
       define_causal_convolution});
  check_kernel({bench.op("causal_convolution", {bench.x({4, 5, 4})}, {{"kernel", 1}, {"silu", 1}}),
                define_causal_convolution});
}

}  // namespace
}  // namespace pipesim::cpu
