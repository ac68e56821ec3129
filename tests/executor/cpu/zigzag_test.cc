#include "models/zigzag.h"

#include <gtest/gtest.h>

#include <array>
#include <string>

#include "tests/executor/cpu/kernel_checks.h"

namespace pipesim::cpu {
namespace {

// Which position comes where: of four chunks of two, the first, the last, the second, the third.
constexpr std::array<std::size_t, 8> kPositions{0, 1, 6, 7, 2, 3, 4, 5};

// Dimension 1 is the sequence.
WholeTensor by_position(const WholeTensor& stored) {
  if (stored.elements.empty()) return stored;
  WholeTensor natural = stored;
  const std::size_t row = stored.elements.size() / static_cast<std::size_t>(stored.shape[0]) / 8;
  for (std::size_t i = 0; i < stored.elements.size(); ++i) {
    const std::size_t of_sample = i / row, sample = of_sample / 8;
    natural.elements[(sample * 8 + kPositions[of_sample % 8]) * row + i % row] = stored.elements[i];
  }
  return natural;
}

WholeTensors by_position(const WholeTensors& stored) {
  WholeTensors natural;
  for (const WholeTensor& t : stored) natural.push_back(by_position(t));
  return natural;
}

// What the operator computes in zigzag order is what it computes in the usual one.
void expect_other_order_only(const std::string& kind, const std::vector<Sizes>& inputs,
                             const Attributes& attributes) {
  SCOPED_TRACE(kind);
  const auto make = [&](std::int64_t zigzag) {
    Bench bench(inputs.front()[0]);
    std::vector<TensorId> tensors;
    for (const Sizes& shape : inputs) tensors.push_back(bench.x(shape));
    Attributes all = attributes;
    all["zigzag"] = zigzag;
    return KernelCase{bench.op(kind, tensors, all), nullptr};
  };
  const KernelCase zigzag = make(2), plain = make(1);
  EXPECT_EQ(zigzag.op.zigzag, 2);
  EXPECT_EQ(plain.op.zigzag, 1);
  Rng rng(3);
  const WholeTensors whole = draw_operands(zigzag, rng), gradients = draw_output_gradients(zigzag.op, rng);
  const ParallelConfig one = single_device(zigzag.op, DeviceId(0));
  const KernelOutcome got = run_kernel(zigzag, one, whole, gradients, all_wanted(zigzag.op), {});
  const KernelOutcome expected =
      run_kernel(plain, one, by_position(whole), by_position(gradients), all_wanted(plain.op), {});
  expect_same(plain.op, {by_position(got.results), by_position(got.gradients)}, expected, 1e-5);
  check_splits(zigzag);
}

TEST(Zigzag, ChangesTheOrderOfAttentionAndNothingElse) {
  const std::vector<Sizes> inputs{{2, 8, 2, 2, 3}, {2, 8, 2, 3}, {2, 8, 2, 4}};
  expect_other_order_only("attention", inputs, {{"causal", 1}});
  expect_other_order_only("alibi_attention", inputs, {{"causal", 1}});
  expect_other_order_only("scored_attention", inputs, {{"causal", 1}, {"alibi", 1}});
  expect_other_order_only("attention", inputs, {{"causal", 1}, {"document_length", 3}});
  expect_other_order_only("attention", inputs, {{"causal", 1}, {"window", 3}, {"cap", 2.0}});
  expect_other_order_only("alibi_attention", inputs, {{"causal", 1}, {"document_length", 5}, {"window", 3}});
}

TEST(Zigzag, ChangesTheOrderOfRotaryEmbeddingsAndNothingElse) {
  expect_other_order_only("rotary", {{2, 8, 2, 4}}, {});
  expect_other_order_only("rotary", {{2, 8, 2, 5}}, {{"width", 2}});
}

}  // namespace
}  // namespace pipesim::cpu
