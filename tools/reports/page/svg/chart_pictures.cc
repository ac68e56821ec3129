#include "tools/reports/page/svg/chart_pictures.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <functional>
#include <limits>
#include <map>

#include "tools/cli/figures.h"
#include "tools/reports/page/svg/activity_colors.h"
#include "tools/reports/page/svg/svg_picture.h"

namespace pipesim {
namespace {

constexpr double kChartWidth = 900, kChartHeight = 420, kChartLeft = 90, kChartTop = 56, kChartRight = 24,
                 kChartBottom = 60;

using TextOfValue = std::function<std::string(double)>;

std::string seconds_text(double s) { return pretty(Seconds(s)); }
std::string plain_text(double v) {
  constexpr int kDigitsShown = 3;
  return significant(v, kDigitsShown);
}

// A plot with two linear axes.
class Plot {
 public:
  struct Axis {
    double low = 0, high = 1;
    std::string title;
    TextOfValue text;
  };
  Plot(const std::string& title, Axis across, Axis up, double height = kChartHeight)
      : picture_(kChartWidth, height, title), x_(std::move(across)), y_(std::move(up)), height_(height) {
    if (!(x_.high > x_.low)) x_.high = x_.low + 1;
    if (!(y_.high > y_.low)) y_.high = y_.low + 1;
    picture_.text(16, 22, title, SvgAlign::Start, 14, SvgPicture::kInk, true);
    for (const double v : round_ticks(y_.low, y_.high, 6)) {
      picture_.line(kChartLeft, y(v), kChartWidth - kChartRight, y(v), SvgPicture::kLine);
      picture_.text(kChartLeft - 6, y(v) + 4, y_.text(v), SvgAlign::End, 11);
    }
    picture_.text(kChartLeft, kChartTop - 6, y_.title, SvgAlign::Start, 11, SvgPicture::kSoft);
    picture_.text(kChartWidth - kChartRight, height - 8, x_.title, SvgAlign::End, 11, SvgPicture::kSoft);
  }
  void x_ticks() {
    for (const double v : round_ticks(x_.low, x_.high, 8)) x_tick(v, x_.text(v));
  }
  void x_tick(double v, const std::string& text) {
    picture_.line(x(v), height_ - kChartBottom, x(v), height_ - kChartBottom + 5, SvgPicture::kSoft);
    picture_.text(x(v), height_ - kChartBottom + 18, text, SvgAlign::Middle, 11);
  }
  [[nodiscard]] double x(double v) const {
    return kChartLeft + (kChartWidth - kChartRight - kChartLeft) * (v - x_.low) / (x_.high - x_.low);
  }
  [[nodiscard]] double y(double v) const {
    return height_ - kChartBottom - (height_ - kChartBottom - kChartTop) * (v - y_.low) / (y_.high - y_.low);
  }
  SvgPicture& picture() { return picture_; }

 private:
  SvgPicture picture_;
  Axis x_, y_;
  double height_;
};

std::string_view series_color(std::size_t i) { return kSeriesColors.at(i % kSeriesColors.size()); }

}  // namespace

namespace {

// A plan or a point of a study: time, and something else of which one wants little.
struct Rated {
  double amount = 0, seconds = 0;
  std::string name;
};

// "" of less than two points.
std::string front_svg(const std::string& title, std::vector<Rated> points, const std::string& amount,
                      const TextOfValue& amount_text) {
  if (points.size() < 2) return "";
  std::ranges::stable_sort(points, {}, [](const Rated& p) { return std::pair(p.seconds, p.amount); });
  double most = 0;
  for (const Rated& p : points) most = std::max(most, p.amount);
  Plot plot(title, {0, 1.08 * most, amount, amount_text},
            {0, 1.08 * points.back().seconds, "iteration", seconds_text});
  plot.x_ticks();
  std::vector<SvgPicture::Point> front;
  double least = std::numeric_limits<double>::max();
  for (const Rated& p : points) {
    const SvgPicture::Point at{plot.x(p.amount), plot.y(p.seconds)};
    const bool best = p.amount < least;
    if (best) {
      least = p.amount;
      front.push_back(at);
    }
    plot.picture().circle(at.x, at.y, best ? 5 : 3, best ? series_color(0) : "#8c8c8c",
                          fmt::format("{}: {}", p.name, seconds_text(p.seconds)));
  }
  plot.picture().path(front, "none", series_color(0), 1.5);
  return plot.picture().str();
}

// Nothing where no plan fits.
std::string course_svg(const SearchCourse& course) {
  double low = std::numeric_limits<double>::max(), high = 0;
  for (const SearchMoment& m : course.moments) {
    if (!m.best) continue;
    low = std::min(low, *m.best);
    high = std::max(high, *m.best);
  }
  if (high == 0) return "";
  const double edge = std::max(0.1 * (high - low), 0.01 * high);
  Plot plot(course.name + ": search", {0, course.moments.back().seconds, "wall time", seconds_text},
            {low - edge, high + edge, "best iteration", seconds_text});
  plot.x_ticks();
  std::vector<SvgPicture::Point> points;
  for (const SearchMoment& m : course.moments) {
    if (!m.best) continue;
    if (!points.empty()) points.push_back({plot.x(m.seconds), points.back().y});
    points.push_back({plot.x(m.seconds), plot.y(*m.best)});
  }
  plot.picture().path(points, "none", series_color(0), 2);
  return plot.picture().str();
}

std::vector<NamedPicture> without_empty(std::vector<NamedPicture> pictures) {
  std::erase_if(pictures, [](const NamedPicture& p) { return p.svg.empty(); });
  return pictures;
}

}  // namespace

std::vector<NamedPicture> pictures_of(const SearchCourse& course) {
  std::vector<Rated> plans;
  for (const FoundPlan& p : course.plans)
    plans.push_back({static_cast<double>(p.memory.value), p.seconds, p.recipe});
  const auto memory_text = [](double bytes) { return pretty(Bytes(static_cast<std::int64_t>(bytes))); };
  return without_empty({{"search", course_svg(course)},
                        {"front", front_svg(course.name + ": time against memory", std::move(plans),
                                            "memory of the fullest device", memory_text)}});
}

namespace {

std::string bars_svg(const std::string& title, const std::vector<MeasuredPair>& pairs) {
  constexpr std::size_t kMostPairs = 12;
  constexpr double kPairHeight = 44, kBar = 15, kNames = 280;
  const std::size_t shown = std::min(kMostPairs, pairs.size());
  double most = 0;
  for (std::size_t i = 0; i < shown; ++i)
    most = std::max({most, pairs[i].predicted, pairs[i].measured, pairs[i].high.value_or(0)});
  const double bottom = kChartTop + kPairHeight * static_cast<double>(shown);
  SvgPicture picture(kChartWidth, bottom + 54, title);
  picture.text(16, 22, title, SvgAlign::Start, 14, SvgPicture::kInk, true);
  const auto x = [&](double s) {
    return kNames + (kChartWidth - kChartRight - kNames) * s / (most > 0 ? 1.05 * most : 1);
  };
  for (const double v : round_ticks(0, most, 6)) {
    picture.line(x(v), kChartTop, x(v), bottom, SvgPicture::kLine);
    picture.text(x(v), bottom + 14, seconds_text(v), SvgAlign::Middle, 11);
  }
  for (std::size_t i = 0; i < shown; ++i) {
    const MeasuredPair& p = pairs[i];
    const double y = kChartTop + kPairHeight * static_cast<double>(i) + 5;
    picture.text(kNames - 8, y + kBar + 4, p.name, SvgAlign::End, 11);
    picture.rectangle(kNames, y, x(p.predicted) - kNames, kBar, series_color(0),
                      "predicted " + seconds_text(p.predicted));
    picture.rectangle(kNames, y + kBar + 1, x(p.measured) - kNames, kBar, "#e69f00",
                      "measured " + seconds_text(p.measured));
    if (p.low && p.high)
      picture.line(x(*p.low), y + 1.5 * kBar, x(*p.high), y + 1.5 * kBar, SvgPicture::kInk, 1.5);
  }
  draw_legend(picture, 16, bottom + 26, kChartWidth,
              {{series_color(0), "predicted"}, {"#e69f00", "measured"}});
  return picture.str();
}

}  // namespace

std::vector<NamedPicture> pictures_of(const MeasuredPage& page) {
  std::vector<NamedPicture> pictures;
  const auto add = [&](const char* name, const char* title, const std::vector<MeasuredPair>& pairs) {
    if (!pairs.empty()) pictures.push_back({name, bars_svg(fmt::format("{}: {}", page.name, title), pairs)});
  };
  add("iterations", "iterations", page.iterations);
  add("operators", "operators that differ most, all devices together", page.operators);
  add("transfers", "transfers that differ most, all devices together", page.links);
  return pictures;
}

namespace {

std::size_t longest_axis(const StudyPage& page) {
  std::size_t longest = 0;
  for (std::size_t a = 0; a < page.axes.size(); ++a) {
    if (page.axes[a].values.size() > page.axes[longest].values.size()) longest = a;
  }
  return longest;
}

// "network fast, batch 8": all axes but one.
std::string other_values(const StudyPage& page, const DrawnStudyPoint& point, std::size_t but) {
  std::string text;
  for (std::size_t a = 0; a < page.axes.size(); ++a) {
    if (a != but)
      text += fmt::format("{}{} {}", text.empty() ? "" : ", ", page.axes[a].name,
                          page.axes[a].values[point.at[a]]);
  }
  return text;
}

// Values stand as far apart as they stand in the list: axes often grow by factors.
std::string curves_svg(const StudyPage& page) {
  const std::size_t axis = longest_axis(page);
  const DrawnStudyAxis& of = page.axes[axis];
  std::map<std::string, std::vector<const DrawnStudyPoint*>> lines;
  double most = 0;
  for (const DrawnStudyPoint& p : page.points) {
    if (!p.seconds) continue;
    lines[other_values(page, p, axis)].push_back(&p);
    most = std::max(most, *p.seconds);
  }
  if (lines.empty()) return "";
  const double last = static_cast<double>(of.values.size()) - 1;
  constexpr double kLegendHeight = 60;
  Plot plot(page.name + ": curves", {0, std::max(1.0, last), of.name, plain_text},
            {0, 1.08 * most, "iteration", seconds_text}, kChartHeight + kLegendHeight);
  for (std::size_t i = 0; i < of.values.size(); ++i) plot.x_tick(static_cast<double>(i), of.values[i]);
  for (const DrawnCrossover& c : page.crossovers) {
    if (c.axis != of.name || c.place < 0) continue;
    const double x = plot.x(c.place);
    plot.picture().line(x, kChartTop, x, plot.y(0), SvgPicture::kSoft, 1,
                        fmt::format("{}{}{} -> {}", c.others, c.others.empty() ? "" : ": ", c.from, c.to),
                        "2 4");
    plot.picture().text(x, kChartTop + 4, "×", SvgAlign::Middle, 14, "#b3261e");
  }
  std::size_t number = 0;
  std::vector<SvgLegendEntry> legend;
  for (auto& [name, points] : lines) {
    std::ranges::stable_sort(points, {}, [&](const DrawnStudyPoint* p) { return p->at[axis]; });
    std::vector<SvgPicture::Point> drawn;
    for (const DrawnStudyPoint* p : points)
      drawn.push_back({plot.x(static_cast<double>(p->at[axis])), plot.y(*p->seconds)});
    // Curves differ by more than their colors.
    constexpr std::array<std::string_view, 4> kDashesOfCurves{"", "7 3", "2 3", "9 3 2 3"};
    plot.picture().path(drawn, "none", series_color(number), 2,
                        kDashesOfCurves.at(number % kDashesOfCurves.size()));
    for (std::size_t i = 0; i < drawn.size(); ++i)
      plot.picture().circle(drawn[i].x, drawn[i].y, 4, series_color(number),
                            fmt::format("{}: {}{}", points[i]->recipe, seconds_text(*points[i]->seconds),
                                        points[i]->fits ? "" : ", does not fit into memory"));
    if (!name.empty()) legend.push_back({series_color(number), name});
    ++number;
  }
  draw_legend(plot.picture(), kChartLeft, kChartHeight + 20, kChartWidth - 2 * kChartLeft, legend);
  return plot.picture().str();
}

}  // namespace

std::vector<NamedPicture> pictures_of(const StudyPage& page) {
  std::vector<Rated> points;
  for (const DrawnStudyPoint& p : page.points) {
    if (p.fits && p.seconds && p.cost_per_hour) points.push_back({*p.cost_per_hour, *p.seconds, p.recipe});
  }
  return without_empty({{"curves", curves_svg(page)},
                        {"front", front_svg(page.name + ": time against cost", std::move(points),
                                            "cost an hour", plain_text)}});
}

}  // namespace pipesim
