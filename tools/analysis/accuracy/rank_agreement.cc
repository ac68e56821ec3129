#include "tools/analysis/accuracy/rank_agreement.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

#include "sim/base/errors.h"

namespace pipesim {
namespace {

constexpr double clear_gap = 0.15;

// From 1 on; equal values share the mean of theirs.
std::vector<double> ranks_of(std::span<const double> values) {
  std::vector<double> ranks;
  for (const double v : values) {
    double below = 0, equal = 0;
    for (const double other : values) {
      below += other < v ? 1 : 0;
      equal += other == v ? 1 : 0;
    }
    ranks.push_back(below + (equal + 1) / 2);
  }
  return ranks;
}

double mean_of(std::span<const double> values) {
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

}  // namespace

std::optional<double> spearman(std::span<const double> a, std::span<const double> b) {
  if (a.size() != b.size()) throw InternalError("ranks of different numbers of values");
  if (a.size() < 2) return std::nullopt;
  const std::vector<double> ranks_a = ranks_of(a), ranks_b = ranks_of(b);
  const double mean_a = mean_of(ranks_a), mean_b = mean_of(ranks_b);
  double both = 0, of_a = 0, of_b = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    const double x = ranks_a[i] - mean_a, y = ranks_b[i] - mean_b;
    both += x * y, of_a += x * x, of_b += y * y;
  }
  if (of_a == 0 || of_b == 0) return std::nullopt;
  return both / std::sqrt(of_a * of_b);
}

RankAgreement rank_agreement(std::span<const double> predicted, std::span<const double> measured) {
  RankAgreement result;
  result.spearman = spearman(predicted, measured);
  const auto chosen = std::min_element(predicted.begin(), predicted.end()) - predicted.begin();
  result.top1_regret =
      measured[static_cast<std::size_t>(chosen)] / *std::min_element(measured.begin(), measured.end()) - 1;
  for (std::size_t i = 0; i < predicted.size(); ++i) {
    for (std::size_t j = 0; j < predicted.size(); ++j) {
      if (predicted[i] >= predicted[j]) continue;
      const bool clear = predicted[j] >= (1 + clear_gap) * predicted[i];
      const bool wrong = measured[i] > measured[j];
      result.clear_pairs += clear ? 1 : 0;
      result.wrong_clear_pairs += clear && wrong ? 1 : 0;
      if (wrong) result.same_order = false;
    }
  }
  return result;
}

}  // namespace pipesim
