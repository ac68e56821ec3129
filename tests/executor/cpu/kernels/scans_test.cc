#include <cmath>

#include "tests/executor/cpu/kernel_checks.h"

namespace pipesim::cpu {
namespace {

double defined_positive_step(double x) { return std::log(1 + std::exp(x)); }

/// The sum over all earlier positions, without states (Dao and Gu, 2024, section 3, equation 6): y_t = Σ_{s ≤
/// t} exp(Σ_{s < u ≤ t} −Δ_u · exp(a)) · (c_t · b_s) · Δ_s · x_s + skip · x_t.
void define_state_space_scan(const Operator&, WholeTensors& t) {
  const Sizes x = t[0].shape;
  const std::int64_t n = t[2].shape[3], heads = x[2] * x[3];
  for (std::int64_t i = 0; i < x[0] * x[1] * heads * x[4]; ++i) {
    const std::int64_t sample = i / (x[1] * heads * x[4]), at = i / (heads * x[4]) % x[1],
                       g = i / (x[3] * x[4]) % x[2], r = i / x[4] % x[3], p = i % x[4];
    double sum = t[6].at(g, r) * t[0].at(sample, at, g, r, p), faded = 0;
    for (std::int64_t s = at; s >= 0; --s) {
      double product = 0;
      for (std::int64_t k = 0; k < n; ++k) product += t[3].at(sample, at, g, k) * t[2].at(sample, s, g, k);
      const double step = defined_positive_step(t[1].at(sample, s, g, r) + t[5].at(g, r));
      sum += std::exp(faded) * product * step * t[0].at(sample, s, g, r, p);
      faded -= step * std::exp(t[4].at(g, r));
    }
    t[7].at(sample, at, g, r, p) = sum;
  }
}

TEST(StateSpaceScanKernel, IsASumOverEarlierPositions) {
  if (!tests_all_kernels()) GTEST_SKIP() << "no GPU kernel scans";
  EXPECT_FALSE(tested_kernels("state_space_scan").empty());
  for (const Sizes& x : {Sizes{2, 7, 2, 2, 4}, Sizes{2, 5, 1, 4, 2}, Sizes{4, 1, 3, 1, 2}}) {
    Bench bench(x[0]);
    const TensorId step = bench.x({x[0], x[1], x[2], x[3]}), b = bench.x({x[0], x[1], x[2], 4}),
                   c = bench.x({x[0], x[1], x[2], 4});
    check_kernel(
        {bench.op("state_space_scan", {bench.x(x), step, b, c}, {{"chunk", 4}}), define_state_space_scan});
  }
}

}  // namespace
}  // namespace pipesim::cpu
