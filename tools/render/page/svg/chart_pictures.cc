#include "tools/render/page/svg/chart_pictures.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <limits>
#include <map>
#include <optional>
#include <set>

#include "tools/base/figures.h"
#include "tools/render/page/svg/activity_colors.h"
#include "tools/render/page/svg/plan_pictures.h"
#include "tools/render/page/svg/svg_picture.h"

namespace pipesim {
namespace {

constexpr double kChartWidth = 900, kChartHeight = 420, kChartLeft = 90, kChartTop = 56, kChartRight = 24,
                 kChartBottom = 60;

using TextOfValue = std::function<std::string(double)>;

std::string seconds_text(double s) { return s == 0 ? "0" : pretty(Seconds(s)); }
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
  // `below`: room under the plot, for a legend.
  Plot(const std::string& title, Axis across, Axis up, double height = kChartHeight, double below = 0)
      : picture_(kChartWidth, height + below, title),
        x_(std::move(across)),
        y_(std::move(up)),
        height_(height) {
    if (!(x_.high > x_.low)) x_.high = x_.low + 1;
    if (!(y_.high > y_.low)) y_.high = y_.low + 1;
    picture_.text(16, 22, title, SvgAlign::Start, 14, SvgPicture::kInk, true);
    for (const double v : round_ticks(y_.low, y_.high, 6)) {
      picture_.line(kChartLeft, y(v), kChartWidth - kChartRight, y(v), SvgPicture::kLine);
      picture_.text(kChartLeft - 6, y(v) + 4, y_.text(v), SvgAlign::End, 11);
    }
    picture_.text(kChartLeft, kChartTop - 6, y_.title, SvgAlign::Start, 11, SvgPicture::kSoft);
    picture_.text(kChartWidth - kChartRight, height - 18, x_.title, SvgAlign::End, 11, SvgPicture::kSoft);
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

// Ends of an axis: from 0 where values are not close to each other.
std::pair<double, double> with_room(double low, double high) {
  constexpr double kPart = 0.08, kAlone = 0.1;
  const double edge = high > low ? kPart * (high - low) : kAlone * high;
  return {low > 2 * (high - low) ? low - edge : 0, high + edge};
}

// Beside the points, as far as there is room.
void name_points(SvgPicture& picture, const std::vector<SvgPicture::Point>& points,
                 const std::vector<std::string>& names) {
  constexpr double kHigh = 14, kLetter = 6.2;
  constexpr std::size_t kMostLetters = 48;
  std::vector<std::pair<SvgPicture::Point, double>> placed;  // left ends, and widths
  for (std::size_t i = 0; i < points.size(); ++i) {
    const std::string name = shortened_label(names[i], kMostLetters);
    const double wide = 12 + kLetter * static_cast<double>(name.size());
    const bool right = points[i].x + wide < kChartWidth;
    const SvgPicture::Point left{right ? points[i].x : points[i].x - wide, points[i].y};
    if (std::ranges::any_of(placed, [&](const auto& p) {
          return std::abs(p.first.y - left.y) < kHigh && p.first.x < left.x + wide &&
                 left.x < p.first.x + p.second;
        }))
      continue;
    placed.emplace_back(left, wide);
    picture.text(points[i].x + (right ? 9 : -9), points[i].y - (right ? 6 : 9), name,
                 right ? SvgAlign::Start : SvgAlign::End, 10.5, SvgPicture::kSoft);
  }
}

// Draws points of time and amount with their front; "" for fewer than two points.
std::string front_svg(const std::string& title, std::vector<Rated> points, const std::string& amount,
                      const TextOfValue& amount_text) {
  if (points.size() < 2) return "";
  std::ranges::stable_sort(points, {}, [](const Rated& p) { return std::pair(p.seconds, p.amount); });
  const auto [fewest, most] = std::ranges::minmax_element(points, {}, &Rated::amount);
  const auto [low_amount, high_amount] = with_room(fewest->amount, most->amount);
  const auto [low_time, high_time] = with_room(points.front().seconds, points.back().seconds);
  Plot plot(title, {low_amount, high_amount, amount, amount_text},
            {low_time, high_time, "iteration", seconds_text});
  plot.x_ticks();
  std::vector<SvgPicture::Point> front;
  std::vector<std::string> names;
  double least = std::numeric_limits<double>::max();
  for (const Rated& p : points) {
    const SvgPicture::Point at{plot.x(p.amount), plot.y(p.seconds)};
    const bool best = p.amount < least;
    if (best) {
      least = p.amount;
      front.push_back(at);
      names.push_back(p.name);
    }
    plot.picture().circle(at.x, at.y, best ? 5 : 3, best ? series_color(0) : "#8c8c8c",
                          fmt::format("{}: {}", p.name, seconds_text(p.seconds)));
  }
  plot.picture().path(front, "none", series_color(0), 1.5);
  name_points(plot.picture(), front, names);
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

// The colors of predicted and of measured bars.
constexpr std::string_view kPredictedColor = "#8c8c8c", kMeasuredColor = "#882255";

std::string bars_svg(const std::string& title, const std::vector<MeasuredPair>& pairs) {
  constexpr std::size_t kMostPairs = 12;
  constexpr double kPairHeight = 44, kBar = 15, kNames = 320;
  constexpr std::size_t kMostName = 48;
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
    picture.text(kNames - 8, y + kBar + 4, shortened_label(p.name, kMostName), SvgAlign::End, 11);
    picture.rectangle(kNames, y, x(p.predicted) - kNames, kBar, kPredictedColor,
                      "predicted " + seconds_text(p.predicted));
    picture.rectangle(kNames, y + kBar + 1, x(p.measured) - kNames, kBar, kMeasuredColor,
                      "measured " + seconds_text(p.measured));
    if (p.low && p.high)
      picture.line(x(*p.low), y + 1.5 * kBar, x(*p.high), y + 1.5 * kBar, SvgPicture::kInk, 1.5);
  }
  draw_legend(picture, 16, bottom + 26, kChartWidth,
              {{kPredictedColor, "predicted"}, {kMeasuredColor, "measured"}});
  return picture.str();
}

}  // namespace

std::vector<NamedPicture> pictures_of(const MeasuredPage& page) {
  std::vector<NamedPicture> pictures;
  const auto add = [&](const char* name, const char* title, const std::vector<MeasuredPair>& pairs) {
    if (!pairs.empty()) pictures.push_back({name, bars_svg(fmt::format("{}: {}", page.name, title), pairs)});
  };
  if (page.timeline)
    pictures.push_back(
        {"timeline", timeline_svg(*page.timeline, page.name + ": one iteration, predicted and measured")});
  add("iterations", "iterations", page.iterations);
  add("operators", "operators that differ most, all devices together", page.operators);
  add("transfers", "transfers that differ most, all devices together", page.links);
  return pictures;
}

namespace {

std::size_t longest_drawn_axis(const StudyPage& page) {
  const auto longest =
      std::ranges::max_element(page.axes, {}, [](const DrawnStudyAxis& a) { return a.values.size(); });
  return static_cast<std::size_t>(longest - page.axes.begin());
}

// What of a point is drawn; nothing where it has none.
struct StudyQuantity {
  std::string title;
  std::function<std::optional<double>(const DrawnStudyPoint&)> of;
  TextOfValue text;
};

// The height of a curve at a place between two values of the axis; nothing outside of it.
std::optional<double> height_at(const std::vector<SvgPicture::Point>& curve, double x) {
  for (std::size_t i = 0; i + 1 < curve.size(); ++i) {
    const SvgPicture::Point &a = curve[i], &b = curve[i + 1];
    if (a.x <= x && x <= b.x && a.x < b.x) return a.y + (b.y - a.y) * (x - a.x) / (b.x - a.x);
  }
  return std::nullopt;
}

// Values stand as far apart as they stand in the list: axes often grow by factors.
std::string curves_svg(const StudyPage& page, const std::string& name, const StudyQuantity& quantity) {
  const std::size_t axis = longest_drawn_axis(page);
  const DrawnStudyAxis& of = page.axes[axis];
  std::map<std::string, std::size_t> known;
  std::vector<std::pair<std::string, std::vector<const DrawnStudyPoint*>>> lines;
  double most = 0;
  for (const DrawnStudyPoint& p : page.points) {
    const std::optional<double> value = p.result.error.empty() ? quantity.of(p) : std::nullopt;
    if (!value) continue;
    const auto [line, is_new] = known.try_emplace(other_values(page, p.at, axis), lines.size());
    if (is_new) lines.push_back({line->first, {}});
    lines[line->second].second.push_back(&p);
    most = std::max(most, *value);
  }
  if (lines.empty()) return "";
  const double last = static_cast<double>(of.values.size()) - 1;
  const std::size_t legend_rows = (lines.size() + 2) / 2;
  const double legend_height = 36 + 18 * static_cast<double>(legend_rows);
  Plot plot(fmt::format("{}: {}", page.name, name), {0, std::max(1.0, last), of.name, plain_text},
            {0, 1.08 * most, quantity.title, quantity.text}, kChartHeight, legend_height);
  for (std::size_t i = 0; i < of.values.size(); ++i) plot.x_tick(static_cast<double>(i), of.values[i]);
  std::vector<SvgLegendEntry> legend;
  for (std::size_t number = 0; number < lines.size(); ++number) {
    auto& [others, points] = lines[number];
    std::ranges::stable_sort(points, {}, [&](const DrawnStudyPoint* p) { return p->at[axis]; });
    std::vector<SvgPicture::Point> drawn;
    for (const DrawnStudyPoint* p : points)
      drawn.push_back({plot.x(static_cast<double>(p->at[axis])), plot.y(*quantity.of(*p))});
    // Curves differ by more than their colors.
    constexpr std::array<std::string_view, 4> kDashesOfCurves{"", "7 3", "2 3", "9 3 2 3"};
    plot.picture().path(drawn, "none", series_color(number), 2,
                        kDashesOfCurves.at(number % kDashesOfCurves.size()));
    for (std::size_t i = 0; i < drawn.size(); ++i)
      plot.picture().circle(
          drawn[i].x, drawn[i].y, 4, series_color(number),
          fmt::format("{}: {}{}", points[i]->result.recipe, quantity.text(*quantity.of(*points[i])),
                      points[i]->result.fits ? "" : ", does not fit into memory"));
    for (const DrawnCrossover& c : page.crossovers) {
      if (c.axis != axis || c.place < 0 || c.others != others) continue;
      const std::optional<double> y = height_at(drawn, plot.x(c.place));
      if (y) plot.picture().cross(plot.x(c.place), *y, 5, fmt::format("{} -> {}", c.from, c.to));
    }
    if (!others.empty()) legend.push_back({series_color(number), others});
  }
  if (std::ranges::any_of(page.crossovers, [&](const auto& c) { return c.axis == axis && c.place >= 0; }))
    legend.push_back({SvgPicture::kAccent, "×: another kind of plan becomes the fastest"});
  draw_legend(plot.picture(), kChartLeft, kChartHeight + 6, kChartWidth - kChartLeft, legend);
  return plot.picture().str();
}

}  // namespace

std::vector<NamedPicture> pictures_of(const StudyPage& page) {
  std::vector<Rated> by_cost, by_devices;
  std::set<std::int64_t> devices;
  for (const DrawnStudyPoint& p : page.points) {
    if (!p.result.error.empty() || !p.result.fits) continue;
    const std::string name = other_values(page, p.at, page.axes.size());
    if (p.cost) by_cost.push_back({*p.cost, p.result.time_s, name});
    by_devices.push_back({static_cast<double>(p.result.devices), p.result.time_s, name});
    devices.insert(p.result.devices);
  }
  if (devices.size() < 2) by_devices.clear();
  const StudyQuantity time{"iteration", [](const auto&p) { return p.result.time_s; }, seconds_text},
      scaling{"scaling", [](const auto&p) { return p.scaling; }, [](double v) { return percent(v); }};
  return without_empty(
      {{"curves", curves_svg(page, "curves", time)},
       {"scaling",
        curves_svg(page, "scaling efficiency, by the first point along nodes or devices", scaling)},
       {"cost",
        front_svg(page.name + ": time against cost", std::move(by_cost), "cost of " + page.work, plain_text)},
       {"devices",
        front_svg(page.name + ": time against devices", std::move(by_devices), "devices", plain_text)}});
}

}  // namespace pipesim
