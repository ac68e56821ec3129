#include "tools/render/searching/search_chart.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace pipesim {
namespace {

constexpr std::size_t kColumns = 60, kRows = 8;

std::string label_of(Nanoseconds time) { return pretty(to_seconds(time)); }

// The times at the first and at the last row.
struct TimeRange {
  Nanoseconds top = 0, bottom = 0;

  // Negative above the chart, so that whatever is worse than the baseline keeps out of its row.
  [[nodiscard]] int row(Nanoseconds time) const {
    if (time > top) return -1;
    const double depth = static_cast<double>(top - time) / static_cast<double>(top - bottom);
    return static_cast<int>(std::lround(depth * static_cast<double>(kRows - 1)));
  }
  [[nodiscard]] bool has(Nanoseconds time) const { return bottom <= time && time <= top; }
};

TimeRange range_of(const SearchChart& chart) {
  const Nanoseconds best = chart.history.back().best;
  TimeRange range{chart.history.front().best, best};
  if (chart.baseline && chart.baseline->time > best) range.top = chart.baseline->time;
  const Nanoseconds lowest = best - (range.top - best);
  for (const auto& mark : {chart.baseline, chart.lower_bound}) {
    if (mark && mark->time >= lowest) range.bottom = std::min(range.bottom, mark->time);
  }
  return range;
}

std::size_t column_of(const SearchImprovement& improvement, const SearchChart& chart) {
  const double x =
      chart.axis == ChartAxis::Proposals ? static_cast<double>(improvement.proposals) : improvement.seconds;
  const double column = chart.end > 0 ? x / chart.end * static_cast<double>(kColumns) : 0;
  return static_cast<std::size_t>(std::clamp(column, 0.0, static_cast<double>(kColumns - 1)));
}

class Canvas {
 public:
  explicit Canvas(const SearchChart& chart) : range_(range_of(chart)) {
    if (chart.lower_bound) add(*chart.lower_bound);
    if (chart.baseline) add(*chart.baseline);
    draw_curve(chart);
    label(range_.row(chart.history.back().best), {"best", chart.history.back().best});
  }

  // The rows between the axis and its labels on the left, and the names of the marks on the right.
  [[nodiscard]] std::string str() const {
    const std::string top = label_of(range_.top), bottom = label_of(range_.bottom);
    std::string text;
    for (std::size_t r = 0; r < kRows; ++r) {
      const std::string tick = r == 0 ? top : r + 1 == kRows ? bottom : "";
      std::string line = fmt::format("  {:>{}} ┤", tick, label_width());
      for (const std::string& cell : cells_[r]) line += cell;
      if (!names_[r].empty()) line += "  " + names_[r];
      text += line.substr(0, line.find_last_not_of(' ') + 1) + "\n";
    }
    return text;
  }
  [[nodiscard]] std::size_t label_width() const {
    return std::max(label_of(range_.top).size(), label_of(range_.bottom).size());
  }

 private:
  void add(const ChartMark& mark) {
    if (!range_.has(mark.time)) return;
    const int row = range_.row(mark.time);
    for (std::string& cell : cells_[static_cast<std::size_t>(row)]) cell = "┄";
    label(row, mark);
  }

  void label(int row, const ChartMark& mark) {
    std::string& name = names_[static_cast<std::size_t>(row)];
    name = fmt::format("{} {}{}{}", mark.name, label_of(mark.time), name.empty() ? "" : ", ", name);
  }

  void draw_curve(const SearchChart& chart) {
    int row = range_.row(chart.history.front().best);
    auto next = chart.history.begin();
    for (std::size_t c = column_of(*next, chart); c < kColumns; ++c) {
      const int from = row;
      for (; next != chart.history.end() && column_of(*next, chart) <= c; ++next)
        row = range_.row(next->best);
      draw_step(c, from, row);
    }
  }

  // From one row down to another.
  void draw_step(std::size_t column, int from, int to) {
    put(column, from, from == to ? "─" : "╮");
    for (int r = from + 1; r < to; ++r) put(column, r, "│");
    if (from != to) put(column, to, "╰");
  }

  void put(std::size_t column, int row, const char* cell) {
    if (row >= 0) cells_[static_cast<std::size_t>(row)][column] = cell;
  }

  TimeRange range_;
  std::vector<std::vector<std::string>> cells_{kRows, std::vector<std::string>(kColumns, " ")};
  std::vector<std::string> names_{kRows};
};

std::string axis_text(const SearchChart& chart, std::size_t indent) {
  const std::string end = chart.axis == ChartAxis::Proposals ? fmt::format("{:.0f} proposals", chart.end)
                                                             : fmt::format("{:.1f} s", chart.end);
  std::string line;
  for (std::size_t c = 0; c < kColumns; ++c) line += "─";
  return fmt::format("{:{}}└{}\n{:{}}0{:>{}}\n", "", indent, line, "", indent + 1, end, kColumns - 1);
}

}  // namespace

std::string search_chart(const SearchChart& chart) {
  if (chart.history.empty()) return "";
  const TimeRange range = range_of(chart);
  const Nanoseconds best = chart.history.back().best;
  if (range.top <= best || chart.history.front().best <= best) return "";
  const Canvas canvas(chart);
  return fmt::format("  best iteration time, by {}\n{}{}",
                     chart.axis == ChartAxis::Proposals ? "proposals" : "wall time", canvas.str(),
                     axis_text(chart, canvas.label_width() + 3));
}

}  // namespace pipesim
