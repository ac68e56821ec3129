#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "sim/base/units.h"
#include "taskgraph/proofs/steady_state.h"

namespace pipesim {

/// The activities of devices, one letter each; '-' is idle while data travel and '.' idle.
inline constexpr std::string_view kActivities = "FBWRU-";

/// One device of a row is busy with something in [begin, end).
struct Activity {
  std::size_t row = 0;
  char mark = 'F';  ///< of kActivities
  Nanoseconds begin = 0, end = 0;
};

/// A part of the time that is not drawn.
struct LeftOut {
  Nanoseconds begin = 0, end = 0;
  double idle = 0;  ///< share of it in which devices compute nothing, mean of all of them
  bool operator==(const LeftOut&) const = default;
};

/// Time from left to right, a row for each group of devices. A column shows the letter of the activity that
/// takes most of its time, or '.', or '-'. Activities too short for a column of their own share columns:
/// every letter gets as many as its share of the time.
///
/// Where microbatches would get fewer than three columns each, long stretches without a begin or end of any
/// kind of work are left out, except the time of three microbatches at both ends. Each becomes a '~' in every
/// row.
///
/// Where the timeline is one of few microbatches, each window that comes again is drawn once, between two
/// '|'.
struct PipelineStrip {
  std::vector<std::string> rows;
  std::vector<LeftOut> left_out;  ///< by '~'
  Nanoseconds column = 0;         ///< how long a column is, on average
  SteadyState steady;             ///< of the windows between '|'
};

/// `devices_of_row`: each of which could be busy all the time. `columns`: at least 16.
PipelineStrip draw_pipeline(std::span<const Activity> activities, std::span<const std::size_t> devices_of_row,
                            Nanoseconds makespan, std::int64_t microbatches, std::size_t columns,
                            const SteadyState& steady = {});

}  // namespace pipesim
