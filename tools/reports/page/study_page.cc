#include "tools/reports/page/study_page.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <nlohmann/json.hpp>

#include "sim/base/units.h"
#include "tools/cli/figures.h"

namespace pipesim {
namespace {

using Json = nlohmann::ordered_json;

constexpr double kMostOfStudy = 1e300;

// "8" for a number, the text itself for a string.
std::string axis_value_text(const JsonValue& value) {
  return value.is_string() ? value.string() : value.text();
}

std::string text_of_member(const JsonValue& object, const char* key) {
  const auto value = object.find(key);
  if (!value || value->kind() == "null") return "";
  return axis_value_text(*value);
}

std::optional<double> number_of_member(const JsonValue& object, const char* key) {
  const auto value = object.find(key);
  if (!value || !value->is_number()) return std::nullopt;
  return value->number(0, kMostOfStudy);
}

// The number that a value begins with, and what follows it: 25 and "Gb/s"; of "x2" it is 2 and "x".
std::optional<double> number_with_unit(const std::string& value, std::string& unit) {
  const bool factor = value.starts_with('x');
  const char* const begin = value.data() + (factor ? 1 : 0);
  const char* const end = value.data() + value.size();
  double number = 0;
  const auto [stopped, error] = std::from_chars(begin, end, number);
  if (error != std::errc() || !std::isfinite(number) || (factor && stopped != end)) return std::nullopt;
  unit = factor ? "x" : std::string(stopped, end);
  return number;
}

DrawnStudyAxis axis_of_study(const JsonValue& json) {
  DrawnStudyAxis axis{json.at("name").string(), {}, {}, ""};
  for (const JsonValue& v : json.at("values").items()) axis.values.push_back(axis_value_text(v));
  if (axis.values.empty()) json.at("values").fail("no values, allowed: at least one");
  for (const std::string& value : axis.values) {
    std::string unit;
    const std::optional<double> number = number_with_unit(value, unit);
    if (!number || (!axis.numbers.empty() && unit != axis.unit)) {
      axis.numbers.clear();
      axis.unit.clear();
      return axis;
    }
    axis.numbers.push_back(*number);
    axis.unit = unit;
  }
  return axis;
}

std::vector<std::size_t> places_of(const JsonValue& json, const std::vector<DrawnStudyAxis>& axes) {
  std::vector<std::size_t> places;
  const std::vector<JsonValue> list = json.items();
  if (list.size() != axes.size())
    json.fail(fmt::format("found {} indices, allowed: {}, one for each axis", list.size(), axes.size()));
  for (std::size_t a = 0; a < list.size(); ++a)
    places.push_back(
        static_cast<std::size_t>(list[a].integer(0, static_cast<std::int64_t>(axes[a].values.size()) - 1)));
  return places;
}

DrawnStudyPoint point_of_study(const JsonValue& json, const std::vector<DrawnStudyAxis>& axes) {
  DrawnStudyPoint point;
  point.at = places_of(json.at("at"), axes);
  point.seconds = number_of_member(json, "time_s");
  point.tokens_per_second = number_of_member(json, "tokens_per_s");
  point.samples_per_second = number_of_member(json, "samples_per_s");
  point.cost_per_hour = number_of_member(json, "price_per_hour");
  if (!point.cost_per_hour) point.cost_per_hour = number_of_member(json, "cost_per_hour");
  if (const auto fits = json.find("fits")) point.fits = fits->boolean();
  point.recipe = text_of_member(json, "recipe");
  point.error = text_of_member(json, "error");
  return point;
}

// Where a value stands on an axis, between two of its values if need be; nothing where it does not.
std::optional<double> place_on(const DrawnStudyAxis& axis, const std::string& value) {
  const auto found = std::ranges::find(axis.values, value);
  if (found != axis.values.end()) return static_cast<double>(found - axis.values.begin());
  std::string unit;
  const std::optional<double> number = number_with_unit(value, unit);
  if (!number || unit != axis.unit) return std::nullopt;
  for (std::size_t i = 0; i + 1 < axis.numbers.size(); ++i) {
    const double a = axis.numbers[i], b = axis.numbers[i + 1];
    if (a != b && std::min(a, b) <= *number && *number <= std::max(a, b))
      return static_cast<double>(i) + (*number - a) / (b - a);
  }
  return std::nullopt;
}

DrawnCrossover crossover_of(const JsonValue& json, const std::vector<DrawnStudyAxis>& axes) {
  DrawnCrossover c{text_of_member(json, "axis"),
                   text_of_member(json, "low"),
                   text_of_member(json, "high"),
                   text_of_member(json, "from"),
                   text_of_member(json, "to"),
                   "",
                   -1};
  if (c.low.empty()) c.low = c.high = text_of_member(json, "value");
  const auto axis = std::ranges::find(axes, c.axis, &DrawnStudyAxis::name);
  if (axis == axes.end()) return c;
  const std::optional<double> low = place_on(*axis, c.low), high = place_on(*axis, c.high);
  if (low && high) c.place = (*low + *high) / 2;
  const auto before = json.find("before");
  if (!before || !before->is_array()) return c;
  const std::vector<std::size_t> places = places_of(*before, axes);
  for (std::size_t a = 0; a < axes.size(); ++a) {
    if (axes[a].name != c.axis)
      c.others +=
          fmt::format("{}{} {}", c.others.empty() ? "" : ", ", axes[a].name, axes[a].values[places[a]]);
  }
  return c;
}

PageTable points_table(const StudyPage& page) {
  const auto has = [&](std::optional<double> DrawnStudyPoint::*figure) {
    return std::ranges::any_of(page.points,
                               [&](const DrawnStudyPoint& p) { return (p.*figure).has_value(); });
  };
  // Of language models tokens tell more than samples.
  const bool of_tokens = has(&DrawnStudyPoint::tokens_per_second),
             costs = has(&DrawnStudyPoint::cost_per_hour);
  const bool of_samples = !of_tokens && has(&DrawnStudyPoint::samples_per_second);
  PageTable table{"Points", "", {}, {}};
  for (const DrawnStudyAxis& axis : page.axes) table.columns.push_back({axis.name, !axis.numbers.empty()});
  table.columns.push_back({"iteration", true});
  if (of_tokens || of_samples) table.columns.push_back({of_tokens ? "tokens/s" : "samples/s", true});
  if (costs) table.columns.push_back({"cost per hour", true});
  table.columns.push_back({"plan"});
  const auto figure = [](const std::optional<double>& value) { return value ? significant(*value, 4) : ""; };
  for (const DrawnStudyPoint& p : page.points) {
    std::vector<std::string> row;
    for (std::size_t a = 0; a < p.at.size(); ++a) row.push_back(page.axes[a].values[p.at[a]]);
    row.push_back(p.seconds ? pretty(Seconds(*p.seconds)) : "");
    if (of_tokens || of_samples)
      row.push_back(figure(of_tokens ? p.tokens_per_second : p.samples_per_second));
    if (costs) row.push_back(figure(p.cost_per_hour));
    row.push_back(!p.error.empty() ? p.error : p.recipe + (p.fits ? "" : " (does not fit into memory)"));
    table.rows.push_back(std::move(row));
  }
  return table;
}

PageTable crossovers_table(const StudyPage& page) {
  PageTable table{"Crossovers",
                  "Between these values another plan becomes the best.",
                  {{"axis"}, {"value"}, {"where"}, {"before"}, {"from there on"}},
                  {}};
  for (const DrawnCrossover& c : page.crossovers)
    table.rows.push_back(
        {c.axis, c.low == c.high ? c.low : fmt::format("{} to {}", c.low, c.high), c.others, c.from, c.to});
  return table;
}

}  // namespace

StudyPage study_page_of(const JsonValue& root) {
  StudyPage page;
  page.name = root.source();
  for (const JsonValue& axis : root.at("axes").items()) page.axes.push_back(axis_of_study(axis));
  if (page.axes.empty()) root.at("axes").fail("no axes, allowed: at least one");
  for (const JsonValue& point : root.at("points").items())
    page.points.push_back(point_of_study(point, page.axes));
  if (const auto list = root.find("crossovers"); list && list->is_array()) {
    for (const JsonValue& c : list->items()) page.crossovers.push_back(crossover_of(c, page.axes));
  }
  page.tables = {points_table(page), crossovers_table(page)};
  std::erase_if(page.tables, [](const PageTable& t) { return t.rows.empty(); });
  return page;
}

nlohmann::ordered_json json_of(const StudyPage& page) {
  const auto number = [](const std::optional<double>& value) { return value ? Json(*value) : Json(nullptr); };
  Json axes = Json::array(), points = Json::array(), crossovers = Json::array(), tables = Json::array();
  for (const DrawnStudyAxis& a : page.axes)
    axes.push_back({{"name", a.name}, {"values", a.values}, {"numbers", a.numbers}, {"unit", a.unit}});
  for (const DrawnStudyPoint& p : page.points)
    points.push_back({{"at", p.at},
                      {"seconds", number(p.seconds)},
                      {"tokens", number(p.tokens_per_second)},
                      {"samples", number(p.samples_per_second)},
                      {"cost", number(p.cost_per_hour)},
                      {"fits", p.fits},
                      {"recipe", p.recipe},
                      {"error", p.error}});
  for (const DrawnCrossover& c : page.crossovers)
    crossovers.push_back({{"axis", c.axis},
                          {"low", c.low},
                          {"high", c.high},
                          {"from", c.from},
                          {"to", c.to},
                          {"others", c.others},
                          {"place", c.place}});
  for (const PageTable& t : page.tables) tables.push_back(json_of(t));
  return {{"kind", "study"},  {"name", page.name},        {"axes", axes},
          {"points", points}, {"crossovers", crossovers}, {"tables", tables}};
}

}  // namespace pipesim
