#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "search/evaluator.h"

namespace pipesim {

/// What a chain minimises: time + λ · bytes over the devices' memory, so that it may cross plans that do not
/// fit.
struct Cost {
  double overflow_price = 0;  ///< λ, nanoseconds a byte
  bool operator==(const Cost&) const = default;
  [[nodiscard]] double operator()(const Evaluation& e) const {
    return static_cast<double>(e.time) + overflow_price * static_cast<double>(e.overflow.value);
  }
  /// An overflow of 1% of all memory is as bad as an iteration of so long.
  static Cost with_price_of(Nanoseconds iteration, Bytes all_memory) {
    constexpr double kTolerableShare = 0.01;
    const auto memory = static_cast<double>(std::max<std::int64_t>(1, all_memory.value));
    return {static_cast<double>(iteration) / (kTolerableShare * memory)};
  }
};

/// Metropolis's rule (Metropolis et al. 1953): a proposal of cost c' replaces a state of cost c with
/// probability min(1, q · exp(−(c' − c)/T)). That is where c' is no higher than this, u being drawn evenly
/// from 0 to 1. It is known before the proposal is evaluated. log_ratio = ln q: how much likelier the way
/// back is proposed (Hastings 1970).
inline double highest_accepted(double cost, double temperature, double u, double log_ratio = 0) {
  return cost + temperature * (log_ratio - std::log(u));
}

}  // namespace pipesim
