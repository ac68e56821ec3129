#pragma once

#include <span>
#include <string>

#include "sim/base/units.h"

namespace pipesim {

/// The cost of collecting activity, from steps that were run in pairs: one without, one with collection.
struct CollectionOverhead {
  std::size_t pairs = 0;
  Nanoseconds without = 0, with = 0;  ///< medians of a step
  double percent = 0;                 ///< median over the pairs of with / without − 1; below 0: noise
  double low = 0, high = 0;           ///< quartiles of the same, percent

  /// "collection costs 1.3 % of a step (middle half of 20 pairs 0.9 % to 1.8 %)".
  [[nodiscard]] std::string str() const;
};

/// Takes the times of steps; the n-th of both lists are a pair. InternalError when the lists are empty or
/// differ in length, or when a time is not above zero.
CollectionOverhead collection_overhead(std::span<const Nanoseconds> without,
                                       std::span<const Nanoseconds> with);

}  // namespace pipesim
