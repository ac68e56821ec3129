#pragma once

#include <map>
#include <span>
#include <vector>

#include "costmodel/calibration.h"

namespace pipesim {

/// Samples of several runs, put together by key.
class SampleSet {
 public:
  void add(std::span<const Measurement> measurements);
  /// By key, ascending; those that were interrupted every time have no samples.
  [[nodiscard]] std::vector<Measurement> all() const;

 private:
  std::map<CalibrationKey, Measurement> by_key_;
};

}  // namespace pipesim
