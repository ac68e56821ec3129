#include "tests/executor/cpu/defined_activation.h"
#include "tests/executor/cpu/kernel_checks.h"

namespace pipesim::cpu {
namespace {

std::size_t product_of(const std::vector<std::int64_t>& shape, std::size_t first, std::size_t last) {
  std::size_t n = 1;
  for (std::size_t i = first; i < last; ++i) n *= static_cast<std::size_t>(shape[i]);
  return n;
}

void define_linear(const Operator& op, WholeTensors& t) {
  const bool bias = t.size() == 4,
             transposed = std::get<std::int64_t>(op.attributes.at("transpose_weight")) != 0;
  const auto contracted = static_cast<std::size_t>(std::get<std::int64_t>(op.attributes.at("contract")));
  const std::size_t rank = t[0].shape.size(), batch_dims = rank - contracted;
  const std::size_t batch = product_of(t[0].shape, 0, batch_dims),
                    in = product_of(t[0].shape, batch_dims, rank);
  const std::size_t out = t.back().elements.size() / batch;
  for (std::size_t b = 0; b < batch; ++b) {
    for (std::size_t o = 0; o < out; ++o) {
      double sum = bias ? t[2].elements[o] : 0;
      for (std::size_t i = 0; i < in; ++i) {
        sum += t[0].elements[b * in + i] * t[1].elements[transposed ? o * in + i : i * out + o];
      }
      t.back().elements[b * out + o] = sum;
    }
  }
  apply_defined_activation(op, t);
}

void check_linear(const Sizes& x, const Attributes& attributes) {
  Bench bench;
  EXPECT_FALSE(tested_kernels("linear").empty());
  check_kernel({bench.op("linear", {bench.x(x)}, attributes), define_linear});
}

TEST(LinearKernel, MultipliesByAWeightAndAddsABias) {
  check_linear({4, 8}, {{"out", 6}});
  check_linear({4, 5, 6}, {{"out", 4}, {"bias", 0}});
}

TEST(LinearKernel, ContractsSeveralDimsIntoSeveral) {
  check_linear({4, 3, 4, 2}, {{"out", Sizes{4, 3}}, {"contract", 2}});
}

TEST(LinearKernel, TakesATransposedWeight) {
  check_linear({4, 3, 8}, {{"out", 7}, {"transpose_weight", 1}});
  check_linear({4, 3, 8}, {{"out", 7}, {"transpose_weight", 1}, {"bias", 0}});
}

TEST(LinearKernel, FusesEveryActivation) {
  for (const char* name : {"relu", "gelu", "silu", "tanh", "sigmoid", "relu2"}) {
    check_linear({4, 4, 6}, {{"out", 8}, {"activation", name}});
  }
}

TEST(LinearKernel, RoutesUnsplit) { check_linear({4, 3, 8}, {{"out", 4}, {"router", 1}, {"bias", 0}}); }

TEST(MatmulKernel, MultipliesEveryPairOfMatrices) {
  for (const int transposed : {0, 1}) {
    Bench bench;
    const auto define = [transposed](const Operator&, WholeTensors& t) {
      const std::int64_t batch = t[2].shape[0], m = t[2].shape[1], n = t[2].shape[2], k = t[0].shape[2];
      for (std::int64_t i = 0; i < batch * m * n; ++i) {
        const std::int64_t a = i / (m * n), row = i / n % m, column = i % n;
        double sum = 0;
        for (std::int64_t j = 0; j < k; ++j) {
          sum += t[0].at(a, row, j) * (transposed ? t[1].at(a, column, j) : t[1].at(a, j, column));
        }
        t[2].at(a, row, column) = sum;
      }
    };
    const TensorId q = transposed ? bench.x({4, 7, 6}) : bench.x({4, 6, 7});
    check_kernel({bench.op("matmul", {bench.x({4, 5, 6}), q}, {{"transpose_q", transposed}}), define});
  }
}

TEST(MatmulKernel, HasAnyNumberOfLeadingDims) {
  Bench bench;
  const auto define = [](const Operator&, WholeTensors& t) {
    for (std::int64_t i = 0; i < 4 * 3 * 2 * 4; ++i) {
      const std::int64_t a = i / 24, b = i / 8 % 3, row = i / 4 % 2, column = i % 4;
      double sum = 0;
      for (std::int64_t j = 0; j < 6; ++j) sum += t[0].at(a, b, row, j) * t[1].at(a, b, j, column);
      t[2].at(a, b, row, column) = sum;
    }
  };
  check_kernel({bench.op("matmul", {bench.x({4, 3, 2, 6}), bench.x({4, 3, 6, 4})}), define});
}

}  // namespace
}  // namespace pipesim::cpu
