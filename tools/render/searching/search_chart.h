#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "search/search.h"

namespace pipesim {

/// Without a limit on wall time a chart is over proposals, so that the same seed gives the same chart.
enum class ChartAxis : std::uint8_t { Proposals, WallTime };

/// A time to compare with.
struct ChartMark {
  std::string name;
  Nanoseconds time = 0;
};

struct SearchChart {
  std::vector<SearchImprovement> history;
  ChartAxis axis = ChartAxis::Proposals;
  double end = 0;  ///< of the search, on that axis
  std::optional<ChartMark> baseline, lower_bound;
};

/// How the best time fell, for a terminal, 60 x 8 characters beside its labels:
///
///     best iteration time, by proposals
///     200 ms ┤╮┄┄┄┄┄┄┄┄┄┄┄┄┄┄  data-parallel 200 ms
///            ┤│
///            ┤╰──╮
///            ┤   ╰───────────  best 150 ms
///     100 ms ┤┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄  lower bound 100 ms
///            └───────────────
///             0 3688 proposals
///
/// The top is the baseline, or the first best time if none is as fast as the baseline; times above it are
/// left out. A mark below the best is in range if that makes the chart at most twice as tall. "" when there
/// is nothing to see: no history, or but one time. Every line ends in "\n".
std::string search_chart(const SearchChart& chart);

}  // namespace pipesim
