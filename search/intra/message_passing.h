#pragma once

#include <cstdint>
#include <vector>

#include "search/intra/core.h"

namespace pipesim {

/// Bounds a core from below: multipliers price the rows, and what is left, a pairwise model, is bounded by
/// sequential tree-reweighted message passing (Kolmogorov 2006, in the form of SRMP, Kolmogorov 2015). A
/// message takes cost from an edge and gives it to a node. Any multipliers and messages give a bound.
class MessagePassing {
 public:
  explicit MessagePassing(const IntraCore& core);

  /// By row, 0 or more.
  void set_multipliers(const std::vector<double>& multipliers);
  [[nodiscard]] const std::vector<double>& multipliers() const { return multipliers_; }
  /// Pass over all nodes in ascending or descending order, and return the bound after it, which never falls.
  double forward() { return pass(true); }
  double backward() { return pass(false); }
  /// Computes what the trees of the last pass use in each row, at their minima. The bound's supergradient is
  /// that minus the capacity.
  void usage_of_minima(std::vector<double>& used);
  /// Makes a choice by following the last pass against its direction.
  void round(std::vector<std::uint32_t>& choice);
  /// Returns by how much the bound rises at least, over what it was before the last pass, when a node must
  /// take a strategy. Multipliers must not have changed since then.
  [[nodiscard]] double rise(std::uint32_t node, std::uint32_t strategy) const {
    return reduced_[core_.nodes[node].first + strategy] - least_[node];
  }
  /// Returns what the rounding of doubles may have added to a bound.
  [[nodiscard]] double rounding(double bound) const;
  /// Returns how often each strategy was in the minima that usage_of_minima() followed.
  [[nodiscard]] const std::vector<double>& weights() const { return weight_; }
  [[nodiscard]] const std::vector<double>& messages() const { return messages_; }
  void set_messages(const std::vector<double>& messages) { messages_ = messages; }

 private:
  double pass(bool ascending);
  [[nodiscard]] bool before(std::uint32_t i, std::uint32_t j) const { return ascending_ ? i < j : j < i; }

  const IntraCore& core_;
  std::vector<double> multipliers_, priced_, messages_, reduced_, share_, least_, weight_;
  double paid_ = 0;  // the capacities at their prices
  bool ascending_ = true;
};

}  // namespace pipesim
