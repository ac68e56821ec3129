#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "sim/lane_use.h"

namespace pipesim {

/// How long tasks hold each lane. No schedule ends before the most that one lane is held.
class LaneLoads {
 public:
  void clear() { load_.assign(load_.size(), 0); }
  /// Adds so many tasks with this use. Returns how long the lane is held by all so far.
  Nanoseconds add(LaneUse use, std::int64_t times = 1) {
    if (use.lane.index() >= load_.size()) load_.resize(use.lane.index() + 1, 0);
    return load_[use.lane.index()] += use.hold * times;
  }
  [[nodiscard]] Nanoseconds most() const { return load_.empty() ? 0 : *std::ranges::max_element(load_); }

 private:
  std::vector<Nanoseconds> load_;
};

}  // namespace pipesim
