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

/// Row `at` of q or k of a group, at length 1.
std::vector<double> defined_unit(WholeTensor& rows, std::int64_t sample, std::int64_t at, std::int64_t g) {
  std::vector<double> unit;
  double square = 1e-6;
  for (std::int64_t i = 0; i < rows.shape[3]; ++i) {
    unit.push_back(rows.at(sample, at, g, i));
    square += unit.back() * unit.back();
  }
  for (double& element : unit) element /= std::sqrt(square);
  return unit;
}

/// What the value of position `from` gives to the result at position `at`: q_t · A_t ⋯ A_{from+1} · β k_from,
/// with the matrices A_u = (I − β_u k_u k_uᵀ) diag(α_u) of positions between (Yang et al., 2024,
/// section 3.1), applied to q from the left.
double defined_share(WholeTensors& t, std::int64_t sample, std::int64_t g, std::int64_t r, std::int64_t at,
                     std::int64_t from) {
  const std::int64_t d = t[0].shape[3];
  const bool by_channel = t[3].shape.size() == 5;
  std::vector<double> row = defined_unit(t[0], sample, at, g);
  const auto times_key = [&](const std::vector<double>& key) {
    double sum = 0;
    for (std::size_t i = 0; i < key.size(); ++i) sum += row[i] * key[i];
    return sum;
  };
  for (std::int64_t u = at; u > from; --u) {
    const std::vector<double> key = defined_unit(t[1], sample, u, g);
    const double taken = t[4].at(sample, u, g, r) * times_key(key);
    for (std::int64_t i = 0; i < d; ++i) {
      const double step = by_channel ? t[3].at(sample, u, g, r, i) + t[6].at(g, r, i)
                                     : t[3].at(sample, u, g, r) + t[6].at(g, r);
      row[static_cast<std::size_t>(i)] =
          (row[static_cast<std::size_t>(i)] - taken * key[static_cast<std::size_t>(i)]) *
          std::exp(-std::exp(t[5].at(g, r)) * defined_positive_step(step));
    }
  }
  return times_key(defined_unit(t[1], sample, from, g)) * t[4].at(sample, from, g, r) /
         std::sqrt(static_cast<double>(d));
}

void define_gated_delta_rule(const Operator&, WholeTensors& t) {
  const Sizes v = t[2].shape;
  std::ranges::fill(t[7].elements, 0.0);
  for (std::int64_t i = 0; i < v[0] * v[1] * v[2] * v[3]; ++i) {
    const std::int64_t sample = i / (v[1] * v[2] * v[3]), at = i / (v[2] * v[3]) % v[1], g = i / v[3] % v[2],
                       r = i % v[3];
    for (std::int64_t from = 0; from <= at; ++from) {
      const double share = defined_share(t, sample, g, r, at, from);
      for (std::int64_t e = 0; e < v[4]; ++e)
        t[7].at(sample, at, g, r, e) += share * t[2].at(sample, from, g, r, e);
    }
  }
}

void check_gated_delta_rule(const Sizes& v, std::int64_t width, bool by_channel) {
  Bench bench(v[0]);
  const Sizes keys{v[0], v[1], v[2], width};
  Sizes heads(v.begin(), v.end() - 1), step = heads;
  if (by_channel) step.push_back(width);
  check_kernel({bench.op("gated_delta_rule",
                         {bench.x(keys), bench.x(keys), bench.x(v), bench.x(step), bench.x(heads)}),
                define_gated_delta_rule});
}

TEST(GatedDeltaRuleKernel, IsASumOverEarlierPositionsSeenThroughReflections) {
  if (!tests_all_kernels()) GTEST_SKIP() << "no GPU kernel knows the delta rule";
  EXPECT_FALSE(tested_kernels("gated_delta_rule").empty());
  for (const bool by_channel : {false, true}) {
    check_gated_delta_rule({2, 7, 2, 2, 4}, 3, by_channel);
    check_gated_delta_rule({2, 4, 1, 4, 2}, 5, by_channel);
  }
  check_gated_delta_rule({4, 1, 3, 1, 2}, 4, true);
}

}  // namespace
}  // namespace pipesim::cpu
