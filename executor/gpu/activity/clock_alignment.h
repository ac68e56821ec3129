#pragma once

#include <span>
#include <string>

#include "sim/base/units.h"

namespace pipesim {

/// CUPTI's clock, read between two readings of the host's steady clock. Each clock counts nanoseconds from a
/// start of its own.
struct ClockPair {
  Nanoseconds host_before = 0, gpu = 0, host_after = 0;
  bool operator==(const ClockPair&) const = default;
};

/// Translates times of CUPTI's clock into the host's: the straight line through the midpoints of two pairs,
/// the narrowest one taken at the start and the narrowest one taken at the stop.
///
/// When the clocks do run at a constant ratio, a pair of width w is off by w/2 at most, so between the pairs
/// the line is off by no more than the wider one's half (error()). Whether they do shows in drift().
class ClockAlignment {
 public:
  /// DeviceError when there are no pairs, or when a clock did not advance between or within them.
  ClockAlignment(std::span<const ClockPair> at_start, std::span<const ClockPair> at_stop);

  [[nodiscard]] Nanoseconds host_time(Nanoseconds gpu) const;
  /// |host_time(gpu) − the true time| is at most this. It grows with the distance outside the pairs.
  [[nodiscard]] Nanoseconds error(Nanoseconds gpu) const;
  /// How much faster the host's clock runs, relatively: 1e-6 is a microsecond a second.
  [[nodiscard]] double drift() const { return drift_; }
  /// "CUPTI's clock was set …" where the drift is more than clocks' own and the pairs' width explain; ""
  /// else.
  [[nodiscard]] std::string why_doubtful() const;

 private:
  ClockPair start_, stop_;  // narrowest ones
  Nanoseconds host_ = 0;    // midpoint of start_
  double drift_ = 0;
};

}  // namespace pipesim
