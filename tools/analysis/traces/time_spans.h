#pragma once

#include <vector>

#include "sim/base/units.h"

namespace pipesim {

struct TimeSpan {
  Nanoseconds begin = 0, end = 0;
  bool operator==(const TimeSpan&) const = default;
};

/// Spans that neither overlap nor touch, by begin, none of them empty.
using TimeSpans = std::vector<TimeSpan>;

TimeSpans united(std::vector<TimeSpan> spans);
TimeSpans without(const TimeSpans& spans, const TimeSpans& holes);
TimeSpans within(const TimeSpans& spans, TimeSpan window);
Nanoseconds total(const TimeSpans& spans);
/// The part of a span that the spans cover.
Nanoseconds covered(TimeSpan span, const TimeSpans& spans);

}  // namespace pipesim
