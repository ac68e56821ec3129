#include "tools/analysis/traces/time_spans.h"

#include <algorithm>

namespace pipesim {

TimeSpans united(std::vector<TimeSpan> spans) {
  std::erase_if(spans, [](const TimeSpan& span) { return span.end <= span.begin; });
  std::ranges::sort(spans, {}, &TimeSpan::begin);
  TimeSpans result;
  for (const TimeSpan& span : spans) {
    if (!result.empty() && span.begin <= result.back().end) {
      result.back().end = std::max(result.back().end, span.end);
    } else {
      result.push_back(span);
    }
  }
  return result;
}

TimeSpans without(const TimeSpans& spans, const TimeSpans& holes) {
  TimeSpans result;
  auto hole = holes.begin();
  for (TimeSpan span : spans) {
    while (hole != holes.end() && hole->end <= span.begin) ++hole;
    for (auto in = hole; in != holes.end() && in->begin < span.end; ++in) {
      if (span.begin < in->begin) result.push_back({span.begin, in->begin});
      span.begin = std::max(span.begin, in->end);
    }
    if (span.begin < span.end) result.push_back(span);
  }
  return result;
}

TimeSpans within(const TimeSpans& spans, TimeSpan window) {
  TimeSpans result;
  for (const TimeSpan& span : spans) {
    const TimeSpan part{std::max(span.begin, window.begin), std::min(span.end, window.end)};
    if (part.begin < part.end) result.push_back(part);
  }
  return result;
}

Nanoseconds total(const TimeSpans& spans) {
  Nanoseconds sum = 0;
  for (const TimeSpan& span : spans) sum += span.end - span.begin;
  return sum;
}

Nanoseconds covered(TimeSpan span, const TimeSpans& spans) {
  auto next = std::ranges::upper_bound(spans, span.begin, {}, &TimeSpan::end);
  Nanoseconds sum = 0;
  for (; next != spans.end() && next->begin < span.end; ++next)
    sum += std::min(span.end, next->end) - std::max(span.begin, next->begin);
  return sum;
}

}  // namespace pipesim
