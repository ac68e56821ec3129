#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "executor/cpu/kernels/kernel.h"
#include "executor/cpu/kernels/operands.h"

namespace pipesim::cpu {

// What kernels of scans have in common.

/// Computes softplus in double precision.
inline double positive_step(double x) { return std::max(x, 0.0) + std::log1p(std::exp(-std::abs(x))); }
inline double slope_of_step(double x) { return 1 / (1 + std::exp(-x)); }

/// An element of a use's piece.
inline double value_of(const ShardCall& call, std::size_t use, std::int64_t i) {
  return static_cast<double>(call.values[use].floats[i]);
}

/// Sums for the gradients of an operator's first `uses` uses, its inputs and weights.
class OperandGradients {
 public:
  OperandGradients(const ShardCall& call, std::size_t uses) : call_(call) {
    for (std::size_t use = 0; use < uses; ++use)
      sums_.emplace_back(static_cast<std::size_t>(box_of(call, use).elements()), 0.0);
  }
  void add(std::size_t use, std::int64_t i, double value) {
    sums_[use][static_cast<std::size_t>(i)] += value;
  }
  /// The sums of a use, to be changed before they are stored.
  std::vector<double>& of(std::size_t use) { return sums_[use]; }
  /// Writes the gradients that somebody wants.
  void store() const {
    for (std::size_t use = 0; use < sums_.size(); ++use) {
      if (!call_.gradients[use].present()) continue;
      std::ranges::transform(sums_[use], call_.gradients[use].floats,
                             [](double sum) { return static_cast<float>(sum); });
    }
  }

 private:
  const ShardCall& call_;
  std::vector<std::vector<double>> sums_;
};

/// Goes through the steps of a recurrence from the last one to the first: visit(t, state before, state
/// behind). advance(t, state) makes step t; before the first one, all `size` elements of the state are 0.
/// States are kept √length apart only, and those between are made again.
template <class Advance, class Visit>
void walk_back(std::int64_t length, std::int64_t size, Advance advance, Visit visit) {
  using State = std::vector<double>;
  const auto part = static_cast<std::int64_t>(std::ceil(std::sqrt(static_cast<double>(length))));
  std::vector<State> kept, between;
  State state(static_cast<std::size_t>(size), 0.0);
  for (std::int64_t t = 0; t < length; ++t) {
    if (t % part == 0) kept.push_back(state);
    advance(t, state);
  }
  for (std::int64_t first = (length - 1) / part * part; first >= 0; first -= part) {
    const std::int64_t end = std::min(first + part, length);
    between.assign(1, kept[static_cast<std::size_t>(first / part)]);
    for (std::int64_t t = first; t < end; ++t) {
      between.push_back(between.back());
      advance(t, between.back());
    }
    for (std::int64_t t = end; t-- > first;) {
      const auto before = static_cast<std::size_t>(t - first);
      visit(t, between[before], between[before + 1]);
    }
  }
}

}  // namespace pipesim::cpu
