#include "tools/render/page/svg/plan_pictures.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "sim/base/suggest.h"
#include "tools/base/figures.h"
#include "tools/render/page/svg/activity_colors.h"
#include "tools/render/page/svg/svg_picture.h"

namespace pipesim {

std::size_t activity_of(TaskKind kind) {
  switch (kind) {
    case TaskKind::Forward:
      return 0;
    case TaskKind::BackwardInput:
      return 1;
    case TaskKind::BackwardWeight:
      return 2;
    case TaskKind::Recompute:
      return 3;
    case TaskKind::Update:
      return 4;
    case TaskKind::ForwardTransfer:
    case TaskKind::RecomputeTransfer:
      return 5;
    case TaskKind::BackwardTransfer:
      return 6;
    case TaskKind::GradientSync:
      return 7;
    case TaskKind::WeightGather:
      return 8;
    case TaskKind::InnerReduce:
    case TaskKind::Rotation:
      return 9;
    case TaskKind::Barrier:
    case TaskKind::Host:
    case TaskKind::Interference:
      break;
  }
  return kDrawnActivities.size() - 1;
}

namespace {

constexpr double kPictureWidth = 1400, kEdge = 16, kLabels = 230, kTop = 34;

// Time from left to right, with a line and a label at round moments.
class TimeAxis {
 public:
  TimeAxis(double left, double right, Nanoseconds end)
      : left_(left), right_(right), end_(static_cast<double>(std::max<Nanoseconds>(1, end))) {}
  [[nodiscard]] double x(Nanoseconds t) const {
    return left_ + (right_ - left_) * static_cast<double>(t) / end_;
  }
  void draw(SvgPicture& picture, double top, double bottom) const {
    for (const double t : round_ticks(0, end_, 10)) {
      const double at = left_ + (right_ - left_) * t / end_;
      picture.line(at, top, at, bottom, SvgPicture::kLine);
      if (at < right_ - 30)
        picture.text(at + 3, bottom + 14, t == 0 ? "0" : pretty(Seconds(t * 1e-9)), SvgAlign::Start, 11,
                     SvgPicture::kSoft);
    }
  }

 private:
  double left_, right_, end_;
};

// The columns of a row that narrow bars share. Neighbours that look the same become one rectangle.
class NarrowBars {
 public:
  NarrowBars(SvgPicture& picture, double y, double height) : picture_(picture), y_(y), height_(height) {}

  // `width` in pixels, less than some two.
  void add(double x, double width, std::size_t activity) {
    const double column = std::floor(x);
    if (column != column_) end_column();
    column_ = column;
    spent_[activity] += width;
  }
  void end() {
    end_column();
    end_run();
  }

 private:
  void end_column() {
    const double* most = std::max_element(spent_.begin(), spent_.end());
    if (*most == 0) return;
    double busy = 0;
    for (const double s : spent_) busy += s;
    constexpr double kShades = 4;
    const double shade = std::ceil(std::min(1.0, busy) * kShades) / kShades;
    const auto activity = static_cast<std::size_t>(most - spent_.begin());
    spent_ = {};
    if (!(run_end_ == column_ && activity == activity_ && shade == shade_)) {
      end_run();
      run_begin_ = column_;
      activity_ = activity;
      shade_ = shade;
    }
    run_end_ = column_ + 1;
  }
  void end_run() {
    if (run_end_ > run_begin_)
      picture_.rectangle(run_begin_, y_, run_end_ - run_begin_, height_, kDrawnActivities.at(activity_).color,
                         {}, 0.25 + 0.75 * shade_);
    run_begin_ = run_end_ = -1;
  }
  SvgPicture& picture_;
  double y_, height_;
  double column_ = -1, run_begin_ = -1, run_end_ = -1, shade_ = 1;
  std::size_t activity_ = 0;
  std::array<double, kDrawnActivities.size()> spent_{};
};

std::string bar_hint(const TimelineRows& t, const DrawnTask& task) {
  const std::string& name = t.names[static_cast<std::size_t>(task.name)];
  return fmt::format("{}{}: {} from {} on", name,
                     task.microbatch < 0 ? "" : fmt::format(", microbatch {}", task.microbatch + 1),
                     pretty(to_seconds(task.duration)), pretty(to_seconds(task.begin)));
}

}  // namespace

std::string timeline_svg(const TimelineRows& t, const std::string& title) {
  constexpr double kRow = 16, kGapBetween = 2, kNarrow = 1.5, kLetter = 6;
  constexpr std::size_t kMostRows = 400, kMostLabel = 36;
  const std::size_t shown = std::min(kMostRows, t.rows.size());
  const double bottom = kTop + kRow * static_cast<double>(shown);
  SvgPicture picture(kPictureWidth, bottom + 70, title);
  picture.text(kEdge, 20, title, SvgAlign::Start, 14, SvgPicture::kInk, true);
  const TimeAxis axis(kLabels, kPictureWidth - kEdge, t.end);
  axis.draw(picture, kTop, bottom);
  for (std::size_t r = 0; r < shown; ++r) {
    const TimelineRow& row = t.rows[r];
    const double y = kTop + kRow * static_cast<double>(r);
    const bool device = row.computes && row.lane == "compute";
    if (r == 0 || t.rows[r - 1].owner != row.owner)
      picture.line(kEdge, y, kPictureWidth - kEdge, y, SvgPicture::kLine);
    std::string label = device ? row.owner + (row.alike > 1 ? fmt::format(" ×{}", row.alike) : "") : row.lane;
    if (row.source != RowSource::Only)
      label += row.source == RowSource::Measured ? ", measured" : ", predicted";
    picture.text(kEdge, y + kRow - 4, shortened_label(label, kMostLabel), SvgAlign::Start, 10.5,
                 device ? SvgPicture::kInk : SvgPicture::kSoft, device);
  }
  std::vector<NarrowBars> narrow;
  for (std::size_t r = 0; r < shown; ++r)
    narrow.emplace_back(picture, kTop + kRow * static_cast<double>(r) + kGapBetween, kRow - 2 * kGapBetween);
  std::array<bool, kDrawnActivities.size()> used{};
  for (const DrawnBar& bar : t.bars) {
    const auto row = static_cast<std::size_t>(bar.row);
    if (row >= shown) continue;
    const DrawnTask& task = t.tasks[static_cast<std::size_t>(bar.task)];
    const std::size_t activity = activity_of(task.kind);
    used.at(activity) = true;
    const double x = axis.x(task.begin), width = axis.x(task.begin + bar.hold) - x;
    if (width < kNarrow) {
      narrow[row].add(x, width, activity);
      continue;
    }
    const double y = kTop + kRow * static_cast<double>(row);
    picture.rectangle(x, y + kGapBetween, width > 3 ? width - 0.5 : width, kRow - 2 * kGapBetween,
                      kDrawnActivities.at(activity).color, bar_hint(t, task));
    const auto room = static_cast<std::size_t>(width / kLetter);
    constexpr std::size_t kLeastLetters = 6;
    if (room >= kLeastLetters)
      picture.text(x + 3, y + kRow - 5,
                   shortened_label(t.names[static_cast<std::size_t>(task.name)], room - 1), SvgAlign::Start,
                   9.5, activity == 0 || activity >= 7 ? "#ffffff" : "#111111");
  }
  for (NarrowBars& bars : narrow) bars.end();
  for (const SteadyWindow& w : t.steady.windows) {
    for (const Nanoseconds at : {w.begin, w.end}) {
      picture.line(axis.x(at) - 1, kTop, axis.x(at) - 1, bottom, SvgPicture::kInk);
      picture.line(axis.x(at) + 1, kTop, axis.x(at) + 1, bottom, SvgPicture::kInk);
    }
  }
  std::vector<SvgLegendEntry> legend;
  for (std::size_t a = 0; a < used.size(); ++a) {
    if (used.at(a))
      legend.push_back({kDrawnActivities.at(a).color, std::string(kDrawnActivities.at(a).label)});
  }
  draw_legend(picture, kEdge, bottom + 26, kPictureWidth - 2 * kEdge, legend);
  if (shown < t.rows.size())
    picture.text(kPictureWidth - kEdge, 20, fmt::format("{} more rows are not drawn", t.rows.size() - shown),
                 SvgAlign::End, 12, SvgPicture::kSoft);
  return picture.str();
}

namespace {

// Steps that are drawn: of those that begin in one pixel column the fullest.
std::vector<std::size_t> drawn_steps(const MemoryCurve& curve, const TimeAxis& axis) {
  std::vector<std::size_t> steps;
  double column = -1;
  for (std::size_t i = 0; i < curve.time.size(); ++i) {
    const double of = std::floor(axis.x(curve.time[i]));
    if (of != column) {
      steps.push_back(i);
    } else if (curve.total(i) > curve.total(steps.back())) {
      steps.back() = i;
    }
    column = of;
  }
  return steps;
}

// The last three points, without the middle one where they are level.
void join_level_steps(std::vector<SvgPicture::Point>& edge) {
  const std::size_t n = edge.size();
  if (n < 3 || edge[n - 1].y != edge[n - 2].y || edge[n - 2].y != edge[n - 3].y) return;
  edge[n - 2] = edge[n - 1];
  edge.pop_back();
}

}  // namespace

std::string memory_svg(const std::vector<MemoryCurve>& curves, Nanoseconds end, const std::string& title) {
  constexpr double kBottom = 300, kLeft = 90;
  const MemoryCurve& curve = *std::ranges::max_element(curves, {}, &MemoryCurve::peak);
  SvgPicture picture(kPictureWidth, kBottom + 64, title);
  picture.text(kEdge, 20, fmt::format("{}: {}", title, curve.device), SvgAlign::Start, 14, SvgPicture::kInk,
               true);
  const TimeAxis axis(kLeft, kPictureWidth - kEdge, end);
  axis.draw(picture, kTop, kBottom);
  const double most = 1.06 * static_cast<double>(std::max({curve.usable, curve.peak, Bytes(1)}).value);
  const auto y = [&](double bytes) { return kBottom - (kBottom - kTop) * bytes / most; };
  for (const double value : round_ticks(0, most, 5)) {
    picture.line(kLeft, y(value), kPictureWidth - kEdge, y(value), SvgPicture::kLine);
    picture.text(kLeft - 6, y(value) + 4, pretty(Bytes(static_cast<std::int64_t>(value))), SvgAlign::End, 11,
                 SvgPicture::kSoft);
  }
  const std::vector<std::size_t> steps = drawn_steps(curve, axis);
  std::vector<double> below(steps.size(), 0);
  std::vector<SvgLegendEntry> legend;
  for (std::size_t c = 0; c < kMemoryCategories; ++c) {
    const bool any = std::ranges::any_of(curve.bytes.at(c), [](Bytes b) { return b.value > 0; });
    if (!any) continue;
    std::vector<SvgPicture::Point> over, under;
    for (std::size_t i = 0; i < steps.size(); ++i) {
      const double from = axis.x(i == 0 ? 0 : curve.time[steps[i]]),
                   until = axis.x(i + 1 < steps.size() ? curve.time[steps[i + 1]] : end);
      const double above = below[i] + static_cast<double>(curve.bytes.at(c)[steps[i]].value);
      // What does not change goes on.
      if (over.empty() || over.back().y != y(above)) over.push_back({from, y(above)});
      if (under.empty() || under.back().y != y(below[i])) under.push_back({from, y(below[i])});
      over.push_back({until, y(above)});
      under.push_back({until, y(below[i])});
      for (std::vector<SvgPicture::Point>* edge : {&over, &under}) join_level_steps(*edge);
      below[i] = above;
    }
    over.insert(over.end(), under.rbegin(), under.rend());
    picture.path(over, kSeriesColors.at(c), "#ffffff", 0.3);
    legend.push_back({kSeriesColors.at(c), std::string(name_of(static_cast<MemoryCategory>(c)))});
  }
  const double usable = y(static_cast<double>(curve.usable.value));
  picture.line(kLeft, usable, kPictureWidth - kEdge, usable, SvgPicture::kInk, 1.5, {}, "6 4");
  picture.text(kPictureWidth - kEdge, usable + 14, "usable " + pretty(curve.usable), SvgAlign::End, 11,
               SvgPicture::kInk, true);
  draw_legend(picture, kEdge, kBottom + 28, kPictureWidth - 2 * kEdge, legend);
  return picture.str();
}

namespace {

constexpr std::array<std::pair<char, std::string_view>, 5> kMarkMeanings{{{'F', "forward"},
                                                                          {'B', "backward"},
                                                                          {'W', "gradients of weights"},
                                                                          {'R', "recompute"},
                                                                          {'U', "update"}}};

std::string_view mark_color(char mark) {
  constexpr std::string_view kMarks = "FBWRU";
  const std::size_t at = kMarks.find(mark);
  return at == std::string_view::npos ? SvgPicture::kPanel : kDrawnActivities.at(at).color;
}

}  // namespace

std::string pipeline_svg(const PipelineReport& p, const std::string& title) {
  constexpr double kCell = 7, kStripRow = 18, kStripLabels = 100;
  std::size_t columns = 0;
  for (const std::string& row : p.strip.rows) columns = std::max(columns, row.size());
  const double bottom = kTop + kStripRow * static_cast<double>(p.strip.rows.size());
  SvgPicture picture(kStripLabels + kCell * static_cast<double>(columns) + kEdge, bottom + 58, title);
  picture.text(kEdge, 20, title, SvgAlign::Start, 14, SvgPicture::kInk, true);
  for (std::size_t r = 0; r < p.strip.rows.size(); ++r) {
    const std::string& row = p.strip.rows[r];
    const double y = kTop + kStripRow * static_cast<double>(r);
    picture.text(kStripLabels - 8, y + 13, "stage " + p.stages_of_row(r), SvgAlign::End);
    for (std::size_t i = 0; i < row.size();) {
      const std::size_t begin = i;
      while (i < row.size() && row[i] == row[begin]) ++i;
      const double x = kStripLabels + kCell * static_cast<double>(begin),
                   width = kCell * static_cast<double>(i - begin);
      picture.rectangle(x, y + 1, width - 0.5, kStripRow - 2, mark_color(row[begin]));
      const bool busy =
          kActivities.substr(0, kActivities.size() - 1).find(row[begin]) != std::string_view::npos;
      if (busy || row[begin] == '~' || row[begin] == '|')
        picture.text(x + width / 2, y + 13, std::string(1, row[begin]), SvgAlign::Middle, 10,
                     row[begin] == 'F' ? "#ffffff" : "#111111");
    }
  }
  std::vector<SvgLegendEntry> legend;
  for (const auto& [mark, meaning] : kMarkMeanings) {
    const auto has = [&mark = mark](const std::string& row) { return row.find(mark) != std::string::npos; };
    if (std::ranges::any_of(p.strip.rows, has))
      legend.push_back({mark_color(mark), fmt::format("{} {}", mark, meaning)});
  }
  draw_legend(picture, kStripLabels, bottom + 10, kCell * static_cast<double>(columns), legend);
  std::string note =
      fmt::format("{}, {}, {} idle; a column is {}.", p.schedule, counted(p.microbatches, "microbatch"),
                  percent(p.idle), pretty(to_seconds(p.strip.column)));
  if (!p.strip.left_out.empty()) note += " At each ~ time is left out.";
  if (p.strip.steady.repeats > 0)
    note += fmt::format(" What is between two | comes {} times.", p.strip.steady.repeats + 1);
  picture.text(kStripLabels, bottom + 48, note, SvgAlign::Start, 11, SvgPicture::kSoft);
  return picture.str();
}

namespace {

struct LoadStep {
  double from;
  std::string_view color;
};

std::string_view load_color(double load) {
  constexpr std::array<LoadStep, 6> kSteps{{{0, "#c9ced4"},
                                            {0.001, "#7fb2d6"},
                                            {0.05, "#2f7fb8"},
                                            {0.25, "#e69f00"},
                                            {0.5, "#d55e00"},
                                            {0.75, "#8c1d0f"}}};
  std::string_view color = kSteps.front().color;
  for (const LoadStep& step : kSteps) {
    if (load >= step.from) color = step.color;
  }
  return color;
}

void draw_lane(SvgPicture& picture, const DrawnVertex& from, const DrawnVertex& to, double load, double side,
               const DrawnLink& link) {
  constexpr double kApart = 2.2, kWidest = 4;
  const double dx = to.x - from.x, dy = to.y - from.y, length = std::max(1.0, std::hypot(dx, dy));
  const double x = side * kApart * dy / length, y = -side * kApart * dx / length;
  picture.line(from.x + x, from.y + y, to.x + x, to.y + y, load_color(load),
               1 + kWidest * std::min(1.0, load),
               fmt::format("{} -> {}: busy {}, {}", from.whole, to.whole, percent(load), link.bandwidth));
}

}  // namespace

std::string topology_svg(const TopologyDrawing& t, const std::string& title) {
  constexpr double kTitleHeight = 30, kBoxWidth = 54, kBoxHeight = 26;
  constexpr std::size_t kMostName = 9;
  const double width = std::max(680.0, t.width);
  SvgPicture picture(width, t.height + kTitleHeight + 54, title);
  picture.text(kEdge, 20, title, SvgAlign::Start, 14, SvgPicture::kInk, true);
  const auto moved = [&](DrawnVertex v) {
    v.y += kTitleHeight;
    return v;
  };
  for (const DrawnNode& n : t.nodes) {
    picture.frame(n.x, n.y + kTitleHeight, n.width, n.height, 6, SvgPicture::kPanel, SvgPicture::kLine);
  }
  for (const DrawnLink& link : t.links) {
    const DrawnVertex a = moved(t.vertices[link.a]), b = moved(t.vertices[link.b]);
    draw_lane(picture, a, b, link.forward, link.duplex ? 1 : 0, link);
    if (link.duplex) draw_lane(picture, b, a, link.backward, 1, link);
  }
  for (const DrawnNode& n : t.nodes) {
    constexpr double kLetter = 8;
    // Links run behind the name.
    picture.rectangle(n.x + 7, n.y + kTitleHeight + 4, 6 + kLetter * static_cast<double>(n.name.size()), 16,
                      SvgPicture::kPanel);
    picture.text(n.x + 10, n.y + kTitleHeight + 16, n.name, SvgAlign::Start, 12, SvgPicture::kInk, true);
  }
  for (const DrawnVertex& vertex : t.vertices) {
    const DrawnVertex v = moved(vertex);
    const double left = v.x - kBoxWidth / 2, top = v.y - kBoxHeight / 2;
    const bool device = v.kind == VertexKind::Device;
    picture.frame(left, top, kBoxWidth, kBoxHeight, device ? 3 : kBoxHeight / 2, "#ffffff",
                  SvgPicture::kSoft);
    if (device)
      picture.rectangle(left, top + kBoxHeight - 4, kBoxWidth * std::min(1.0, v.busy), 4, "#009e73");
    picture.text(v.x, v.y + 3, shortened_label(v.name, kMostName), SvgAlign::Middle, 11);
  }
  picture.text(
      kEdge, t.height + kTitleHeight + 16,
      fmt::format(
          "Links: the share of the iteration in which they are busy. Devices: in which they compute.{}",
          t.nodes_left_out > 0 ? fmt::format(" {} more nodes are not drawn.", t.nodes_left_out) : ""),
      SvgAlign::Start, 11, SvgPicture::kSoft);
  draw_legend(picture, kEdge, t.height + kTitleHeight + 28, width - 2 * kEdge,
              {{load_color(0), "idle"},
               {load_color(0.01), "busy up to 5 %"},
               {load_color(0.05), "25 %"},
               {load_color(0.25), "50 %"},
               {load_color(0.5), "75 %"},
               {load_color(1), "100 %"}});
  return picture.str();
}

std::vector<NamedPicture> pictures_of(const PlanPage& page) {
  std::vector<NamedPicture> pictures{{"timeline", timeline_svg(page.timeline, page.name + ": timeline")}};
  if (!page.memory.empty())
    pictures.push_back({"memory", memory_svg(page.memory, page.timeline.end, page.name + ": memory")});
  if (page.pipeline) pictures.push_back({"pipeline", pipeline_svg(*page.pipeline, page.name + ": pipeline")});
  pictures.push_back({"topology", topology_svg(page.topology, page.name + ": topology")});
  return pictures;
}

}  // namespace pipesim
