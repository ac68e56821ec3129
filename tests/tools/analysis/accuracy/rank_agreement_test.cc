#include "tools/analysis/accuracy/rank_agreement.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "sim/base/errors.h"

namespace pipesim {
namespace {

using Values = std::vector<double>;

TEST(Spearman, SeesTheOrderAlone) {
  EXPECT_DOUBLE_EQ(spearman(Values{1, 2, 3}, Values{10, 11, 500}).value(), 1);
  EXPECT_DOUBLE_EQ(spearman(Values{1, 2, 3}, Values{3, 2, 1}).value(), -1);
  // 1 − 6 Σd² / (n (n² − 1)) with d = 0, 1, −1, 0.
  EXPECT_DOUBLE_EQ(spearman(Values{1, 2, 3, 4}, Values{1, 3, 2, 4}).value(), 1 - 6.0 * 2 / (4 * 15));
}

TEST(Spearman, GivesEqualValuesTheirMeanRank) {
  // Ranks 1.5, 1.5, 3 and 1, 2, 3: 1.5 / √(1.5 · 2).
  EXPECT_NEAR(spearman(Values{5, 5, 7}, Values{1, 2, 3}).value(), 1.5 / std::sqrt(3.0), 1e-12);
}

TEST(Spearman, NeedsAnOrder) {
  EXPECT_FALSE(spearman(Values{1}, Values{1}));
  EXPECT_FALSE(spearman(Values{2, 2}, Values{1, 3}));
  EXPECT_THROW(spearman(Values{1, 2}, Values{1}), InternalError);
}

TEST(RankAgreement, MeasuresWhatAWrongBestPlanCosts) {
  const RankAgreement a = rank_agreement(Values{1.0, 1.1, 2.0}, Values{1.5, 1.2, 1.4});
  EXPECT_NEAR(a.top1_regret, 0.25, 1e-12);
  EXPECT_FALSE(a.same_order);
  EXPECT_EQ(a.clear_pairs, 2U);  // 2.0 with the others
  EXPECT_EQ(a.wrong_clear_pairs, 1U);
}

TEST(RankAgreement, OfOnePlanIsPerfect) {
  const RankAgreement a = rank_agreement(Values{1}, Values{3});
  EXPECT_EQ(a.top1_regret, 0);
  EXPECT_TRUE(a.same_order);
  EXPECT_FALSE(a.spearman);
}

TEST(RankAgreement, HasNoPreferenceBetweenEqualPredictions) {
  EXPECT_TRUE(rank_agreement(Values{1, 1}, Values{2, 3}).same_order);
  EXPECT_TRUE(rank_agreement(Values{1, 1}, Values{3, 2}).same_order);
}

}  // namespace
}  // namespace pipesim
