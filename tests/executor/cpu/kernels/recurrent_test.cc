#include "tests/executor/cpu/defined_activation.h"
#include "tests/executor/cpu/kernel_checks.h"

namespace pipesim::cpu {
namespace {

void define_lstm(const Operator&, WholeTensors& t) {
  const std::int64_t samples = t[0].shape[0], hidden = t[2].shape[1];
  for (std::int64_t n = 0; n < samples; ++n) {
    for (std::int64_t j = 0; j < hidden; ++j) {
      double z[4];
      for (std::int64_t gate = 0; gate < 4; ++gate) {
        z[gate] = t[5].at(gate, j);
        for (std::int64_t i = 0; i < t[0].shape[1]; ++i) z[gate] += t[0].at(n, i) * t[3].at(i, gate, j);
        for (std::int64_t i = 0; i < hidden; ++i) z[gate] += t[1].at(n, i) * t[4].at(i, gate, j);
        z[gate] = defined_activation(gate == 2 ? "tanh" : "sigmoid", z[gate]);
      }
      const double c = t[7].at(n, j) = z[1] * t[2].at(n, j) + z[0] * z[2];
      t[6].at(n, j) = z[3] * std::tanh(c);
    }
  }
}

TEST(LstmKernel, ComputesOneStep) {
  EXPECT_FALSE(tested_kernels("lstm_cell").empty());
  Bench bench;
  check_kernel({bench.op("lstm_cell", {bench.x({4, 5}), bench.x({4, 6}), bench.x({4, 6})}, {{"hidden", 6}}),
                define_lstm});
}

void define_bahdanau(const Operator&, WholeTensors& t) {
  const auto& shape = t[1].shape;
  for (std::int64_t n = 0; n < shape[0]; ++n) {
    std::vector<double> shares;
    double sum = 0;
    for (std::int64_t s = 0; s < shape[1]; ++s) {
      double score = 0;
      for (std::int64_t a = 0; a < shape[2]; ++a)
        score += t[3].at(a) * std::tanh(t[0].at(n, a) + t[1].at(n, s, a));
      shares.push_back(std::exp(score));
      sum += shares.back();
    }
    for (std::int64_t d = 0; d < t[2].shape[2]; ++d) {
      double& ctx = t[4].at(n, d) = 0;
      for (std::int64_t s = 0; s < shape[1]; ++s)
        ctx += shares[static_cast<std::size_t>(s)] / sum * t[2].at(n, s, d);
    }
  }
}

TEST(BahdanauKernel, AveragesOverTheSequence) {
  Bench bench;
  check_kernel({bench.op("bahdanau_attention", {bench.x({4, 4}), bench.x({4, 6, 4}), bench.x({4, 6, 4})}),
                define_bahdanau});
}

}  // namespace
}  // namespace pipesim::cpu
