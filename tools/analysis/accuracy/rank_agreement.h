#pragma once

#include <cstddef>
#include <optional>
#include <span>

namespace pipesim {

/// Spearman's rank correlation: Pearson's correlation of the ranks, equal values sharing their mean rank
/// (Spearman, American Journal of Psychology 15(1), 1904). Nothing for fewer than two values, and where all
/// values of one side are equal. InternalError when the numbers of values differ.
std::optional<double> spearman(std::span<const double> a, std::span<const double> b);

/// How well predictions order plans, compared with their measured times.
struct RankAgreement {
  std::optional<double> spearman;
  /// Measured time of the plan that was predicted to be the fastest (the first of equal ones) over that of
  /// the fastest plan, − 1.
  double top1_regret = 0;
  std::size_t clear_pairs = 0;        ///< pairs of which one was predicted to take 15 % longer, or more
  std::size_t wrong_clear_pairs = 0;  ///< of these, how many were measured in the other order
  /// No pair at all is in the other order.
  bool same_order = true;
};

/// `predicted` and `measured`: seconds by plan, at least one, each above zero.
RankAgreement rank_agreement(std::span<const double> predicted, std::span<const double> measured);

}  // namespace pipesim
