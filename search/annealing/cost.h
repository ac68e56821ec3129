#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "search/evaluator.h"

namespace pipesim {

/// The cost that a chain minimises: time + λ · bytes over the devices' memory. With a finite λ a chain can
/// pass through plans that do not fit.
struct Cost {
  double overflow_price = 0;  ///< λ, nanoseconds a byte
  bool operator==(const Cost&) const = default;
  [[nodiscard]] double operator()(const Evaluation& e) const {
    return static_cast<double>(e.time) + overflow_price * static_cast<double>(e.overflow.value);
  }
  /// The λ with which an overflow of 1% of all memory costs as much as this iteration time.
  static Cost with_price_of(Nanoseconds iteration, Bytes all_memory) {
    constexpr double kTolerableShare = 0.01;
    const auto memory = static_cast<double>(std::max<std::int64_t>(1, all_memory.value));
    return {static_cast<double>(iteration) / (kTolerableShare * memory)};
  }
};

/// The highest cost that is accepted. By Metropolis's rule (Metropolis et al. 1953), a proposal of cost c'
/// replaces a state of cost c with probability min(1, q · exp(−(c' − c)/T)). This is equivalent to c' being
/// no higher than the result, where u is uniform between 0 and 1, so the limit is known before the proposal
/// is evaluated. log_ratio = ln q, where q is the chance of proposing the way back divided by the chance of
/// proposing this way (Hastings 1970).
inline double highest_accepted(double cost, double temperature, double u, double log_ratio = 0) {
  return cost + temperature * (log_ratio - std::log(u));
}

}  // namespace pipesim
