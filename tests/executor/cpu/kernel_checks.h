#pragma once

#include "tests/executor/cpu/kernel_case.h"

namespace pipesim::cpu {

/// Returns configs that split one factor alone, in 2, 3 and 4 parts, as far as that is legal.
inline std::vector<ParallelConfig> single_splits(const Operator& op) {
  std::vector<ParallelConfig> configs;
  for (std::size_t f = 0; f < op.factors.size(); ++f) {
    for (const std::int32_t degree : {2, 3, 4}) {
      ParallelConfig config = single_device(op, DeviceId(0));
      config.degrees[f] = degree;
      if (illegal_degrees(op, config.degrees)) continue;
      config.devices.clear();
      for (std::int32_t d = 0; d < degree; ++d) config.devices.emplace_back(d);
      configs.push_back(std::move(config));
    }
  }
  return configs;
}

/// Any split gives what the unsplit kernel gives, whichever gradients are wanted, in either order of passes.
inline void check_splits(const KernelCase& c, std::uint64_t random_configs = 40) {
  Rng rng(11);
  const WholeTensors whole = draw_operands(c, rng), gradients = draw_output_gradients(c.op, rng);
  const ParallelConfig one = single_device(c.op, DeviceId(0));
  const KernelOutcome expected = run_kernel(c, one, whole, gradients, all_wanted(c.op), c.step);
  const auto check = [&](const ParallelConfig& config, const std::vector<bool>& wanted, bool weights_first) {
    const testing::ScopedTrace trace(__FILE__, __LINE__, config.str(c.op));
    expect_same(c.op, run_kernel(c, config, whole, gradients, wanted, c.step, weights_first), expected, 1e-5);
  };
  for (const ParallelConfig& config : single_splits(c.op)) check(config, all_wanted(c.op), false);
  for_each_seed(random_configs, [&](Rng& random) {
    std::vector<bool> wanted = all_wanted(c.op);
    if (random.below(3) == 0) {
      for (std::size_t u = 0; u < wanted.size(); ++u) wanted[u] = wanted[u] && random.below(2) == 0;
    }
    ParallelConfig config = random_config(c.op, random, 24, 16);
    config.ring = false;  // what exchanges blocks is compiled, see equality_test.cc
    check(config, wanted, random.below(2) == 0);
  });
}

/// Other orders of sums give the same up to rounding.
inline void check_orders_of_sums(const KernelCase& c) {
  Rng rng(13);
  const WholeTensors whole = draw_operands(c, rng), gradients = draw_output_gradients(c.op, rng);
  const ParallelConfig one = single_device(c.op, DeviceId(0));
  const auto expected = run_kernel(c, one, whole, gradients, all_wanted(c.op), c.step);
  for (const SumOrder order : other_sum_orders) {
    StepContext step = c.step;
    step.sums = order;
    expect_same(c.op, run_kernel(c, one, whole, gradients, all_wanted(c.op), step), expected, 1e-5);
  }
}

/// Kernels keep no more from forward to backward than the operator says.
inline void check_saved_bytes(const Operator& op, const Kernel& kernel) {
  std::vector<ParallelConfig> configs = single_splits(op);
  configs.push_back(single_device(op, DeviceId(0)));
  std::vector<Range> ranges;
  for (const ParallelConfig& config : configs) {
    ShardGrid(op, config).ranges(0, ranges);
    const auto bytes = static_cast<double>(kernel.saved_bytes(op, ranges));
    EXPECT_LE(bytes, evaluate(op.saved_extra_bytes, ranges)) << op.kind;
  }
}

/// Other kernels of the kind, for instance with operands of 16 bits, give the results of the first up to
/// rounding.
inline void check_other(const KernelCase& c, const KernelCase& first) {
  Rng rng(17);
  WholeTensors whole = draw_operands(c, rng), gradients = draw_output_gradients(c.op, rng);
  for (WholeTensors* tensors : {&whole, &gradients}) {
    for (WholeTensor& t : *tensors) round_elements(t, c.tested.type);
  }
  const ParallelConfig one = single_device(c.op, DeviceId(0));
  const KernelOutcome expected = run_kernel(first, one, whole, gradients, all_wanted(c.op), c.step);
  expect_same(c.op, run_kernel(c, one, whole, gradients, all_wanted(c.op), c.step), expected,
              c.tested.type == DataType::Float32 ? 1e-5 : 2e-2);
}

/// Checks the unsplit results of all kernels of the kind. It is for operands too large for central
/// differences.
inline void check_results(KernelCase c) {
  for (const TestedKernel& tested : tested_kernels(c.op.kind)) {
    c.tested = tested;
    Rng rng(19);
    WholeTensors whole = draw_operands(c, rng);
    for (WholeTensor& t : whole) round_elements(t, tested.type);
    const WholeTensors gradients = draw_output_gradients(c.op, rng);
    const auto got =
        run_kernel(c, single_device(c.op, DeviceId(0)), whole, gradients, all_wanted(c.op), c.step);
    KernelOutcome expected{whole, WholeTensors(whole.size())};
    c.define(c.op, expected.results);
    expect_same(c.op, {got.results, WholeTensors(whole.size())}, expected,
                tested.type == DataType::Float32 ? 1e-5 : 1e-2);
  }
}

inline void check_kernel(KernelCase c) {
  std::string attributes;
  for (const auto& [name, value] : c.op.attributes) attributes += fmt::format(" {}={}", name, to_text(value));
  const testing::ScopedTrace trace(__FILE__, __LINE__, c.op.kind + attributes);
  const std::vector<TestedKernel> kernels = tested_kernels(c.op.kind);
  ASSERT_FALSE(kernels.empty());
  c.tested = kernels.front();
  check_saved_bytes(c.op, *c.tested.kernel);
  check_against_definition(c);
  if (c.splits_agree) check_splits(c);
  check_orders_of_sums(c);
  for (std::size_t i = 1; i < kernels.size(); ++i) {
    KernelCase other = c;
    other.tested = kernels[i];
    check_other(other, c);
  }
}

}  // namespace pipesim::cpu
