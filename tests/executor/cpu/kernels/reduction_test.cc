#include "tests/executor/cpu/kernel_checks.h"

namespace pipesim::cpu {
namespace {

void define_reduce(const Operator& op, WholeTensors& t) {
  const auto& axes = std::get<std::vector<std::int64_t>>(op.attributes.at("axes"));
  const std::string& mode = std::get<std::string>(op.attributes.at("mode"));
  const auto& shape = t[0].shape;
  const double count = static_cast<double>(t[0].elements.size()) / static_cast<double>(t[1].elements.size());
  for (double& y : t[1].elements) y = mode == "max" ? -1e300 : 0;
  for (std::size_t i = 0; i < t[0].elements.size(); ++i) {
    std::size_t rest = i, at = 0, stride = 1;
    for (std::size_t d = shape.size(); d-- > 0;) {
      const auto extent = static_cast<std::size_t>(shape[d]);
      if (std::find(axes.begin(), axes.end(), static_cast<std::int64_t>(d)) == axes.end()) {
        at += rest % extent * stride;
        stride *= extent;
      }
      rest /= extent;
    }
    double& y = t[1].elements[at];
    y = mode == "max" ? std::max(y, t[0].elements[i]) : y + t[0].elements[i] / (mode == "mean" ? count : 1);
  }
}

TEST(ReduceKernel, ReducesAnyDims) {
  EXPECT_FALSE(tested_kernels("reduce").empty());
  for (const char* mode : {"sum", "mean", "max"}) {
    for (const Sizes& axes : {Sizes{2, 3}, Sizes{1}, Sizes{0, 3}, Sizes{0, 1, 2, 3}}) {
      Bench bench;
      check_kernel(
          {bench.op("reduce", {bench.x({4, 4, 6, 5})}, {{"axes", axes}, {"mode", mode}}), define_reduce});
    }
  }
}

TEST(ReduceKernel, ReducesManyTerms) {
  for (const char* mode : {"sum", "mean", "max"}) {
    for (const Sizes& axes : {Sizes{0, 1, 2}, Sizes{1, 2}, Sizes{0, 1}}) {
      Bench bench;
      check_results(
          {bench.op("reduce", {bench.x({2, 50, 90})}, {{"axes", axes}, {"mode", mode}}), define_reduce});
    }
  }
}

KernelCase dropout_case(const Sizes& x, double rate, const StepContext& step) {
  Bench bench(x[0]);
  KernelCase c{bench.op("dropout", {bench.x(x)}, {{"rate", rate}}), nullptr};
  c.step = step;
  return c;
}

WholeTensors ones(const Operator& op) { return {filled(op.uses[0], 1), filled(op.uses[1], 1)}; }

/// Outputs for inputs of 1.
std::vector<double> mask_of(const KernelCase& c) {
  ShardRun run(*tested_kernels(c.op.kind).at(0).kernel, c.op, single_device(c.op, DeviceId(0)), c.step,
               {true, false});
  return run.forward(ones(c.op))[1].elements;
}

TEST(DropoutKernel, DropsTheSameElementsForwardAndBackwardUnderAnySplit) {
  const KernelCase c =
      dropout_case({4, 5, 6}, 0.3, {.seed = 3, .step = 2, .microbatch = 1, .microbatches = 2});
  check_splits(c);
  const KernelOutcome got = run_kernel(c, single_device(c.op, DeviceId(0)), ones(c.op),
                                       {WholeTensor{}, filled(c.op.uses[1], 1)}, {true, false}, c.step);
  EXPECT_EQ(got.results[1].elements, got.gradients[0].elements);
}

TEST(DropoutKernel, DropsItsShareAndScalesTheRest) {
  const std::vector<double> mask = mask_of(dropout_case({50, 200}, 0.3, {.seed = 4}));
  const auto kept = std::count(mask.begin(), mask.end(), static_cast<double>(static_cast<float>(1 / 0.7)));
  EXPECT_EQ(kept + std::count(mask.begin(), mask.end(), 0.0), 10000);
  EXPECT_NEAR(static_cast<double>(kept), 7000, 150);
}

TEST(DropoutKernel, KeepsAllOrNothingAtTheEnds) {
  EXPECT_EQ(mask_of(dropout_case({3, 4}, 0, {})), std::vector<double>(12, 1.0));
  EXPECT_EQ(mask_of(dropout_case({3, 4}, 1, {})), std::vector<double>(12, 0.0));
}

TEST(DropoutKernel, SeesTheGlobalBatchThroughMicrobatches) {
  std::vector<double> parts = mask_of(dropout_case({4, 50}, 0.5, {.microbatch = 0, .microbatches = 2}));
  const std::vector<double> second =
      mask_of(dropout_case({4, 50}, 0.5, {.microbatch = 1, .microbatches = 2}));
  EXPECT_NE(parts, second);
  parts.insert(parts.end(), second.begin(), second.end());
  EXPECT_EQ(parts, mask_of(dropout_case({8, 50}, 0.5, {})));
}

TEST(DropoutKernel, ChangesWithSeedStepAndOperator) {
  KernelCase c = dropout_case({8, 50}, 0.5, {});
  const std::vector<double> mask = mask_of(c);
  EXPECT_NE(mask, mask_of(dropout_case({8, 50}, 0.5, {.seed = 1})));
  EXPECT_NE(mask, mask_of(dropout_case({8, 50}, 0.5, {.step = 1})));
  c.op.name = "another";
  EXPECT_NE(mask, mask_of(c));
}

}  // namespace
}  // namespace pipesim::cpu
