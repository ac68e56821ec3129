#include "tools/analysis/plans/pipeline_strip.h"

#include <algorithm>
#include <array>
#include <numeric>

#include "sim/base/errors.h"

namespace pipesim {
namespace {

constexpr std::size_t kTravel = kActivities.size() - 1;  // of '-', which is no work
constexpr Nanoseconds kMicrobatchesKept = 3;             // at each end of what is left out

struct Stretch {
  Nanoseconds begin, end;
};

std::size_t mark_index(char mark) {
  const std::size_t index = kActivities.find(mark);
  if (index == std::string_view::npos) throw InternalError("no activity has this letter");
  return index;
}

// One row of a stretch of time: how long its devices do what, column by column.
class StripRow {
 public:
  StripRow(Stretch stretch, std::size_t columns, std::size_t devices)
      : stretch_(stretch),
        columns_(static_cast<Nanoseconds>(columns)),
        devices_(static_cast<Nanoseconds>(devices)),
        spent_(columns) {}

  void add(std::size_t mark, Nanoseconds start, Nanoseconds end) {
    start = std::max(start, stretch_.begin);
    end = std::min(end, stretch_.end);
    if (start >= end) return;
    const Nanoseconds length = stretch_.end - stretch_.begin;
    for (Nanoseconds c = (start - stretch_.begin) * columns_ / length; c < columns_ && begin(c) < end; ++c) {
      const Nanoseconds covered = std::min(end, begin(c + 1)) - std::max(start, begin(c));
      spent_[static_cast<std::size_t>(c)][mark] += std::max<Nanoseconds>(0, covered);
    }
  }

  [[nodiscard]] std::string text() const {
    std::string text;
    std::array<Nanoseconds, kTravel> owed{};  // to each letter, by the columns before
    for (Nanoseconds c = 0; c < columns_; ++c) {
      const Spent& spent = spent_[static_cast<std::size_t>(c)];
      const Nanoseconds all = (begin(c + 1) - begin(c)) * devices_;
      const Nanoseconds working = std::accumulate(spent.begin(), spent.end() - 1, Nanoseconds{0});
      if (working == 0 || 2 * working < all) {
        text += 2 * spent[kTravel] > all - working && spent[kTravel] > 0 ? '-' : '.';
        continue;
      }
      std::size_t most = kTravel;
      for (std::size_t m = 0; m < kTravel; ++m) {
        owed[m] += spent[m];
        if (spent[m] > 0 && (most == kTravel || owed[m] > owed[most])) most = m;
      }
      owed[most] -= working;
      text += kActivities[most];
    }
    return text;
  }

 private:
  using Spent = std::array<Nanoseconds, kActivities.size()>;
  [[nodiscard]] Nanoseconds begin(Nanoseconds column) const {
    return stretch_.begin + column * (stretch_.end - stretch_.begin) / columns_;
  }
  Stretch stretch_;
  Nanoseconds columns_, devices_;
  std::vector<Spent> spent_;
};

// When the rows begin and end each kind of work, ascending, from 0 to the makespan.
std::vector<Nanoseconds> landmarks(std::span<const Activity> activities, std::size_t rows,
                                   Nanoseconds makespan) {
  struct Span {
    Nanoseconds begin = INT64_MAX, end = 0;
  };
  std::vector<std::array<Span, kTravel>> spans(rows);
  for (const Activity& a : activities) {
    const std::size_t mark = mark_index(a.mark);
    if (mark == kTravel) continue;
    Span& span = spans[a.row][mark];
    span.begin = std::min(span.begin, a.begin);
    span.end = std::max(span.end, a.end);
  }
  std::vector<Nanoseconds> times{0, makespan};
  for (const auto& row : spans) {
    for (const Span& span : row) {
      if (span.end > 0) times.insert(times.end(), {span.begin, span.end});
    }
  }
  std::ranges::sort(times);
  return times;
}

// How long the busiest row's devices work for one microbatch.
Nanoseconds work_of_microbatch(std::span<const Activity> activities, std::span<const std::size_t> devices,
                               std::int64_t microbatches) {
  std::vector<Nanoseconds> work(devices.size(), 0);
  for (const Activity& a : activities) {
    if (mark_index(a.mark) != kTravel) work[a.row] += a.end - a.begin;
  }
  Nanoseconds most = 0;
  for (std::size_t r = 0; r < work.size(); ++r)
    most = std::max(most, work[r] / std::max<Nanoseconds>(1, static_cast<Nanoseconds>(devices[r])));
  return most / std::max<std::int64_t>(1, microbatches);
}

std::vector<Stretch> stretches_to_leave_out(std::span<const Activity> activities,
                                            std::span<const std::size_t> devices, Nanoseconds makespan,
                                            std::int64_t microbatches, std::size_t columns) {
  constexpr Nanoseconds kColumnsOfMicrobatch = 3, kLeastMicrobatches = 4;
  if (microbatches < 2 * kMicrobatchesKept + kLeastMicrobatches) return {};
  const Nanoseconds period = work_of_microbatch(activities, devices, microbatches);
  if (period == 0 || period >= kColumnsOfMicrobatch * makespan / static_cast<Nanoseconds>(columns)) return {};
  const std::vector<Nanoseconds> times = landmarks(activities, devices.size(), makespan);
  std::vector<Stretch> out;
  Nanoseconds kept = makespan;
  for (std::size_t i = 0; i + 1 < times.size(); ++i) {
    const Stretch between{times[i] + kMicrobatchesKept * period, times[i + 1] - kMicrobatchesKept * period};
    if (between.end - between.begin < kLeastMicrobatches * period) continue;
    out.push_back(between);
    kept -= between.end - between.begin;
  }
  // A drawing that leaves out little is no clearer than the whole.
  if (kept > makespan / 10 * 8) return {};
  return out;
}

double idle_share(std::span<const Activity> activities, std::span<const std::size_t> devices,
                  Stretch stretch) {
  const auto all = static_cast<double>(std::accumulate(devices.begin(), devices.end(), std::size_t{0}));
  double busy = 0;
  for (const Activity& a : activities) {
    if (mark_index(a.mark) == kTravel) continue;
    const Nanoseconds within = std::min(a.end, stretch.end) - std::max(a.begin, stretch.begin);
    busy += static_cast<double>(std::max<Nanoseconds>(0, within));
  }
  return 1 - busy / (all * static_cast<double>(stretch.end - stretch.begin));
}

}  // namespace

namespace {

// What is drawn one behind the other, and what stands between.
struct DrawnStretch {
  Stretch time;
  const char* then = "";
};

// From begin to end in parts that are as long as they are wide.
void draw_stretches(std::span<const Activity> activities, std::span<const std::size_t> devices_of_row,
                    std::span<const DrawnStretch> stretches, std::size_t columns, PipelineStrip& strip) {
  Nanoseconds whole = 0;
  for (const DrawnStretch& s : stretches) whole += s.time.end - s.time.begin;
  const auto drawn = static_cast<Nanoseconds>(columns + 1 - stretches.size());
  strip.column = std::max<Nanoseconds>(1, whole / drawn);
  strip.rows.resize(devices_of_row.size());
  for (const auto& [time, then] : stretches) {
    const Nanoseconds width = (time.end - time.begin) * drawn / std::max<Nanoseconds>(1, whole);
    std::vector<StripRow> rows;
    for (const std::size_t devices : devices_of_row)
      rows.emplace_back(time, static_cast<std::size_t>(std::max<Nanoseconds>(1, width)), devices);
    for (const Activity& a : activities) rows[a.row].add(mark_index(a.mark), a.begin, a.end);
    for (std::size_t r = 0; r < rows.size(); ++r) strip.rows[r] += rows[r].text() + then;
  }
}

}  // namespace

PipelineStrip draw_pipeline(std::span<const Activity> activities, std::span<const std::size_t> devices_of_row,
                            Nanoseconds makespan, std::int64_t microbatches, std::size_t columns,
                            const SteadyState& steady) {
  const Nanoseconds whole = std::max<Nanoseconds>(1, makespan);
  PipelineStrip strip;
  strip.steady = steady;
  std::vector<DrawnStretch> stretches;
  Nanoseconds begin = 0;
  for (const SteadyWindow& w : steady.windows) {
    stretches.push_back({{begin, w.begin}, "|"});
    stretches.push_back({{w.begin, w.end}, "|"});
    begin = w.end;
  }
  if (steady.windows.empty()) {
    for (const Stretch& s :
         stretches_to_leave_out(activities, devices_of_row, whole, microbatches, columns)) {
      strip.left_out.push_back({s.begin, s.end, idle_share(activities, devices_of_row, s)});
      stretches.push_back({{begin, s.begin}, "~"});
      begin = s.end;
    }
  }
  stretches.push_back({{begin, whole}});
  draw_stretches(activities, devices_of_row, stretches, columns, strip);
  return strip;
}

}  // namespace pipesim
