#include "tests/executor/cpu/defined_activation.h"
#include "tests/executor/cpu/kernel_checks.h"

namespace pipesim::cpu {
namespace {

TEST(ElementwiseKernel, ComputesEveryActivation) {
  for (const char* kind : {"relu", "gelu", "silu", "tanh", "sigmoid", "relu2"}) {
    Bench bench;
    EXPECT_FALSE(tested_kernels(kind).empty());
    const auto define = [kind](const Operator&, WholeTensors& t) {
      for (std::size_t i = 0; i < t[0].elements.size(); ++i)
        t[1].elements[i] = defined_activation(kind, t[0].elements[i]);
    };
    const auto spread = [](WholeTensors& t) {
      for (double& x : t[0].elements) x *= 4;
    };
    check_kernel({bench.op(kind, {bench.x({4, 5, 6})}), define, 0, spread});
  }
}

/// The element of a narrow operand for element `i` of the wide one, by numpy's rule.
std::size_t broadcast_offset(std::size_t i, const WholeTensor& wide, const WholeTensor& narrow) {
  std::size_t offset = 0, stride = 1;
  for (std::size_t d = wide.shape.size(), n = narrow.shape.size(); d-- > 0;) {
    const std::size_t index = i % static_cast<std::size_t>(wide.shape[d]);
    i /= static_cast<std::size_t>(wide.shape[d]);
    if (n == 0) continue;
    --n;
    if (narrow.shape[n] != 1) offset += index * stride;
    stride *= static_cast<std::size_t>(narrow.shape[n]);
  }
  return offset;
}

void check_binary(const Sizes& x, const Sizes& y) {
  for (const char* kind : {"add", "mul"}) {
    Bench bench(x[0]);
    const bool product = kind == std::string("mul");
    const auto define = [product](const Operator&, WholeTensors& t) {
      for (std::size_t i = 0; i < t[0].elements.size(); ++i) {
        const double a = t[0].elements[i], b = t[1].elements[broadcast_offset(i, t[0], t[1])];
        t[2].elements[i] = product ? a * b : a + b;
      }
    };
    check_kernel({bench.op(kind, {bench.x(x), bench.x(y)}), define});
  }
}

TEST(BinaryKernels, CombineEqualShapes) { check_binary({4, 5, 6}, {4, 5, 6}); }

TEST(BinaryKernels, StretchTheSecondOperand) {
  check_binary({4, 5, 6}, {6});
  check_binary({4, 5, 6}, {4, 1, 6});
  check_binary({4, 5, 6}, {5, 1});
  check_binary({4, 5, 6}, {4, 1, 1});
  check_binary({4, 5, 6}, {1});
  check_binary({8}, {8});
}

}  // namespace
}  // namespace pipesim::cpu
