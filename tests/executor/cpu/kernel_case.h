#pragma once

#include <fmt/format.h>

#include <functional>

#include "tests/executor/cpu/shard_run_passes.h"
#include "tests/executor/cpu/tested_kernels.h"
#include "tests/models/samples.h"
#include "tests/sim/random_graph.h"
#include "tests/taskgraph/random_strategies.h"

namespace pipesim::cpu {

/// A kernel beside a definition of what it should compute, in double and in plain loops.
struct KernelCase {
  Operator op;
  /// Computes outputs (and states) from inputs, weights and indices of whole tensors; nothing is split.
  std::function<void(const Operator&, WholeTensors&)> define;
  std::int64_t integers_below = 0;                            ///< index inputs are drawn from [0, this)
  std::function<void(WholeTensors&)> prepare = [](auto&) {};  ///< after drawing: what must not be arbitrary
  bool splits_agree = true;  ///< local batch statistics change the result when split
  StepContext step{};
  TestedKernel tested{};  ///< none: the first of the program
};

/// A random operand of every use; floats are float32 exactly.
inline WholeTensors draw_operands(const KernelCase& c, Rng& rng) {
  WholeTensors whole;
  for (const TensorUse& use : c.op.uses) {
    WholeTensor& t = whole.emplace_back(filled(use, 0));
    if (use.role == Role::Output) continue;
    randomise(t, rng);
    if (use.role != Role::Index || c.integers_below == 0) continue;
    t.integers = true;
    for (double& e : t.elements)
      e = static_cast<double>(rng.below(static_cast<std::uint64_t>(c.integers_below)));
  }
  c.prepare(whole);
  return whole;
}

inline WholeTensors draw_output_gradients(const Operator& op, Rng& rng) {
  WholeTensors gradients(op.uses.size());
  for (std::size_t u = 0; u < op.uses.size(); ++u) {
    if (op.uses[u].role != Role::Output) continue;
    gradients[u] = filled(op.uses[u], 0);
    randomise(gradients[u], rng);
  }
  return gradients;
}

/// By use: true for all inputs and weights.
inline std::vector<bool> all_wanted(const Operator& op) {
  std::vector<bool> wanted;
  for (const TensorUse& use : op.uses) wanted.push_back(use.role == Role::Input || use.role == Role::Weight);
  return wanted;
}

struct KernelOutcome {
  WholeTensors results, gradients;
};

inline KernelOutcome run_kernel(const KernelCase& c, const ParallelConfig& config, const WholeTensors& whole,
                                const WholeTensors& output_gradients, const std::vector<bool>& wanted,
                                const StepContext& step, bool weights_first = false) {
  const Kernel* kernel = c.tested.kernel ? c.tested.kernel : tested_kernels(c.op.kind).at(0).kernel;
  ShardRun run(*kernel, c.op, config, step, wanted);
  KernelOutcome outcome;
  outcome.results = run.forward(whole);
  outcome.gradients = run.backward(output_gradients, weights_first);
  return outcome;
}

inline void expect_same(const Operator& op, const KernelOutcome& got, const KernelOutcome& expected,
                        double tolerance) {
  for (std::size_t u = 0; u < op.uses.size(); ++u) {
    const auto name = [&](const char* of) { return fmt::format("{} of use {} of {}", of, u, op.kind); };
    if (!got.results[u].elements.empty())
      expect_close(got.results[u], expected.results[u], tolerance, name("value"));
    if (!got.gradients[u].elements.empty())
      expect_close(got.gradients[u], expected.gradients[u], tolerance, name("gradient"));
  }
}

/// Σ over outputs of output · its gradient, by the definition.
inline double defined_loss(const KernelCase& c, WholeTensors whole, const WholeTensors& output_gradients) {
  c.define(c.op, whole);
  double loss = 0;
  for (std::size_t u = 0; u < whole.size(); ++u) {
    const auto& g = output_gradients[u].elements;
    for (std::size_t i = 0; i < g.size(); ++i) loss += g[i] * whole[u].elements[i];
  }
  return loss;
}

/// Checks values against the definition, and every gradient against its central differences.
inline void check_against_definition(const KernelCase& c) {
  Rng rng(7);
  const WholeTensors whole = draw_operands(c, rng);
  const WholeTensors gradients = draw_output_gradients(c.op, rng);
  KernelOutcome expected{whole, WholeTensors(whole.size())};
  c.define(c.op, expected.results);
  constexpr double step = 1e-5;
  const std::vector<bool> wanted = all_wanted(c.op);
  for (std::size_t u = 0; u < whole.size(); ++u) {
    if (!wanted[u]) continue;
    expected.gradients[u] = whole[u];
    for (std::size_t i = 0; i < whole[u].elements.size(); ++i) {
      WholeTensors more = whole, less = whole;
      more[u].elements[i] += step;
      less[u].elements[i] -= step;
      expected.gradients[u].elements[i] =
          (defined_loss(c, more, gradients) - defined_loss(c, less, gradients)) / (2 * step);
    }
  }
  const ParallelConfig one = single_device(c.op, DeviceId(0));
  expect_same(c.op, run_kernel(c, one, whole, gradients, wanted, c.step), expected, 3e-5);
}

}  // namespace pipesim::cpu
