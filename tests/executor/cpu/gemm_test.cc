#include "executor/cpu/kernels/gemm.h"

#include <gmock/gmock.h>

#include <numeric>
#include <set>
#include <vector>

#include "sim/base/rng.h"
#include "tests/refusal.h"

namespace pipesim::cpu {
namespace {

using testing::ElementsAre;
using testing::FloatNear;
using testing::Pointwise;
using testing::UnorderedElementsAreArray;

std::vector<float> random_matrix(std::size_t elements, Rng& rng) {
  std::vector<float> m(elements);
  for (float& e : m) e = static_cast<float>(2 * rng.uniform() - 1);
  return m;
}

TEST(Gemm, MultipliesAndAccumulates) {
  const float a[] = {1, 2, 3, 4, 5, 6}, b[] = {1, 0, 0, 1, 1, 1};
  std::vector<float> c(4, 100);
  multiply({2, 2, 3}, a, b, c.data(), "fc");
  EXPECT_THAT(c, ElementsAre(4, 5, 10, 11));
  multiply({2, 2, 3, false, false, true}, a, b, c.data(), "fc");
  EXPECT_THAT(c, ElementsAre(8, 10, 20, 22));
}

TEST(Gemm, TakesEitherOperandTransposed) {
  const float a[] = {1, 4, 2, 5, 3, 6}, b[] = {1, 0, 1, 0, 1, 1};
  std::vector<float> c(4);
  multiply({2, 2, 3, true, true}, a, b, c.data(), "fc");
  EXPECT_THAT(c, ElementsAre(4, 5, 10, 11));
}

TEST(Gemm, IsZeroWhereNothingIsContracted) {
  std::vector<float> c{1, 2};
  multiply({1, 2, 0}, nullptr, nullptr, c.data(), "fc");
  EXPECT_THAT(c, ElementsAre(0, 0));
  c = {1, 2};
  multiply({1, 2, 0, false, false, true}, nullptr, nullptr, c.data(), "fc");
  EXPECT_THAT(c, ElementsAre(1, 2));
  multiply({0, 2, 3}, nullptr, nullptr, nullptr, "fc");
}

TEST(Gemm, OtherOrdersOfSumsRoundOtherwise) {
  Rng rng(1);
  const std::vector<float> a = random_matrix(2000, rng), b = random_matrix(3000, rng);
  for (const bool transpose_a : {false, true}) {
    for (const bool transpose_b : {false, true}) {
      std::vector<float> c(6), reordered(6);
      multiply({2, 3, 1000, transpose_a, transpose_b}, a.data(), b.data(), c.data(), "fc");
      for (const SumOrder order : other_sum_orders) {
        multiply({2, 3, 1000, transpose_a, transpose_b, false, order}, a.data(), b.data(), reordered.data(),
                 "fc");
        EXPECT_NE(c, reordered);
        EXPECT_THAT(reordered, Pointwise(FloatNear(1e-4F), c));
      }
    }
  }
}

TEST(Gemm, SaysWhichOperatorFailed) {
  EXPECT_EQ(refusal<DeviceError>([] {
              multiply({-1, 2, 3}, nullptr, nullptr, nullptr, "fc1");
            }),
            "operator \"fc1\": oneDNN can't multiply -1×3 by 3×2: invalid_arguments");
}

TEST(ColumnSums, AddUpRowsInAnyOrder) {
  const float m[] = {1, 2, 3, 4, 5, 6};
  std::vector<float> sums(2);
  column_sums(m, 3, 2, SumOrder::Ascending, sums.data());
  EXPECT_THAT(sums, ElementsAre(9, 12));
  for (const SumOrder order : other_sum_orders) {
    column_sums(m, 3, 2, order, sums.data());
    EXPECT_THAT(sums, ElementsAre(9, 12));
  }
}

TEST(SumOrder, TakesEveryTermOnceAndNoTwoAreAlike) {
  for (std::int64_t n = 0; n < 10; ++n) {
    std::set<std::vector<std::int64_t>> orders;
    for (const SumOrder order : other_sum_orders) {
      std::vector<std::int64_t> terms, all(static_cast<std::size_t>(n));
      for (std::int64_t i = 0; i < n; ++i) terms.push_back(term_at(order, i, n));
      std::iota(all.begin(), all.end(), 0);
      EXPECT_THAT(terms, UnorderedElementsAreArray(all));
      EXPECT_TRUE(n < 2 || terms != all);
      orders.insert(terms);
    }
    EXPECT_TRUE(n < 4 || orders.size() == other_sum_orders.size()) << n;
  }
}

}  // namespace
}  // namespace pipesim::cpu
