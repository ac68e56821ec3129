#include "tools/render/page/study_page.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>

#include "sim/base/suggest.h"
#include "sim/base/units.h"
#include "tools/base/figures.h"

namespace pipesim {
namespace {

using Json = nlohmann::ordered_json;

DrawnStudyAxis drawn_axis(const StudyAxis& axis) {
  DrawnStudyAxis drawn{axis.path, axis.values, {}, ""};
  for (const std::string& value : axis.values) {
    NumberWithUnit number;
    const bool read = read_number(value, number);
    const std::string unit = number.factor ? "x" : number.unit;
    if (!read || (number.factor && !number.unit.empty()) || (!drawn.numbers.empty() && unit != drawn.unit)) {
      drawn.numbers.clear();
      drawn.unit.clear();
      return drawn;
    }
    drawn.numbers.push_back(number.number);
    drawn.unit = unit;
  }
  return drawn;
}

// Axes with several values, by their number in the study; the first where there are none.
std::vector<std::size_t> drawn_axes(const Study& study) {
  std::vector<std::size_t> drawn;
  for (std::size_t a = 0; a < study.axes.size(); ++a) {
    if (study.axes[a].values.size() > 1) drawn.push_back(a);
  }
  if (drawn.empty()) drawn.push_back(0);
  return drawn;
}

// Where a value stands on an axis, between two of its values if need be; nothing where it does not.
std::optional<double> place_on(const DrawnStudyAxis& axis, const std::string& value) {
  const auto found = std::ranges::find(axis.values, value);
  if (found != axis.values.end()) return static_cast<double>(found - axis.values.begin());
  NumberWithUnit number;
  if (!read_number(value, number) || (number.factor ? "x" : number.unit) != axis.unit) return std::nullopt;
  for (std::size_t i = 0; i + 1 < axis.numbers.size(); ++i) {
    const double a = axis.numbers[i], b = axis.numbers[i + 1];
    if (a != b && std::min(a, b) <= number.number && number.number <= std::max(a, b))
      return static_cast<double>(i) + (number.number - a) / (b - a);
  }
  return std::nullopt;
}

std::vector<PageFact> study_facts(const Study& study) {
  const std::map<PointPlans, std::string> plans{{PointPlans::Same, "the same at each point"},
                                                {PointPlans::Recipes, "the best recipe of each point"},
                                                {PointPlans::Search, "a search at each point"}};
  std::vector<PageFact> facts{{"model", study.model}, {"plans", plans.at(study.plans)}};
  const std::size_t failed = static_cast<std::size_t>(
      std::ranges::count_if(study.points, [](const auto& p) { return p && !p->error.empty(); }));
  std::string points = counted(static_cast<std::int64_t>(study.points.size()), "point");
  if (study.done() < study.points.size()) points += fmt::format(", {} are done", study.done());
  if (failed > 0) points += fmt::format(", {} without a plan", failed);
  facts.push_back({"size", points});
  const std::vector<std::size_t> drawn = drawn_axes(study);
  for (std::size_t a = 0; a < study.axes.size(); ++a) {
    if (std::ranges::find(drawn, a) == drawn.end())
      facts.push_back({study.axes[a].path, study.axes[a].values.front()});
  }
  return facts;
}

PageTable points_table(const StudyPage& page) {
  const auto any = [&](const auto& has) {
    return std::ranges::any_of(page.points, [&](const DrawnStudyPoint& p) { return has(p); });
  };
  // For language models, tokens tell more than samples.
  const bool of_tokens = any([](const auto&p) { return p.result.tokens_per_s.has_value(); }),
             scales = any([](const auto&p) { return p.scaling.has_value(); }),
             has_mfu = any([](const auto&p) { return p.result.mfu.has_value(); }),
             costs = any([](const auto&p) { return p.cost.has_value(); });
  PageTable table{"Points", "", {}, {}};
  for (const DrawnStudyAxis& axis : page.axes) table.columns.push_back({axis.name, !axis.numbers.empty()});
  const auto add_column = [&](const std::string& name, bool shown = true) {
    if (shown) table.columns.push_back({name, true});
  };
  add_column("iteration");
  add_column(page.objective, !page.objective.empty());
  add_column(of_tokens ? "tokens/s" : "samples/s");
  add_column("scaling", scales);
  add_column("MFU", has_mfu);
  add_column("memory");
  add_column("price an hour", costs);
  add_column("cost of " + page.work, costs);
  table.columns.push_back({"plan"});
  if (scales)
    table.note = "Scaling: samples a second and device, by those of the first point along nodes or devices.";
  std::vector<std::string> counted;  // alike at most points
  for (const DrawnStudyPoint& p : page.points) {
    if (!p.result.counted.empty() && std::ranges::find(counted, p.result.counted) == counted.end())
      counted.push_back(p.result.counted);
  }
  if (!counted.empty()) {
    table.note +=
        fmt::format("{}MFU counts {}.", table.note.empty() ? "" : " ", fmt::join(counted, "; or counts "));
  }
  const auto shown = [](const std::optional<double>& value, const auto& text) {
    return value ? text(*value) : std::string();
  };
  const auto digits = [](double value) { return significant(value, 4); };
  const auto share = [](double value) { return percent(value); };
  const auto time = [](double value) { return pretty(Seconds(value)); };
  for (const DrawnStudyPoint& p : page.points) {
    std::vector<std::string> row;
    for (std::size_t a = 0; a < p.at.size(); ++a) row.push_back(page.axes[a].values[p.at[a]]);
    if (!p.result.error.empty()) {
      row.resize(table.columns.size() - 1);
      row.push_back(p.result.error);
      table.rows.push_back(std::move(row));
      continue;
    }
    row.push_back(time(p.result.time_s));
    if (!page.objective.empty()) row.push_back(shown(p.result.objective_s, time));
    row.push_back(of_tokens ? shown(p.result.tokens_per_s, digits) : digits(p.result.samples_per_s));
    if (scales) row.push_back(shown(p.scaling, share));
    if (has_mfu) row.push_back(shown(p.result.mfu, share));
    row.push_back(pretty(Bytes(p.result.memory_bytes)));
    if (costs) row.push_back(shown(p.result.price_per_hour, digits));
    if (costs) row.push_back(shown(p.cost, digits));
    row.push_back(p.result.recipe + (p.result.fits ? "" : " (does not fit into memory)"));
    table.rows.push_back(std::move(row));
  }
  return table;
}

PageTable crossovers_table(const StudyPage& page) {
  PageTable table{"Crossovers",
                  "Between these values another kind of plan becomes the fastest.",
                  {{"axis"}, {"value"}, {"where"}, {"before"}, {"from there on"}},
                  {}};
  for (const DrawnCrossover& c : page.crossovers)
    table.rows.push_back({page.axes[c.axis].name,
                          c.low == c.high ? c.low : fmt::format("{} to {}", c.low, c.high), c.others, c.from,
                          c.to});
  return table;
}

}  // namespace

std::string other_values(const StudyPage& page, const std::vector<std::size_t>& at, std::size_t but) {
  std::string text;
  for (std::size_t a = 0; a < page.axes.size(); ++a) {
    if (a != but)
      text += fmt::format("{}{} {}", text.empty() ? "" : ", ", page.axes[a].name, page.axes[a].values[at[a]]);
  }
  return text;
}

StudyPage study_page_of(const Study& study, const std::string& name) {
  StudyPage page;
  page.name = name;
  page.facts = study_facts(study);
  page.objective = study.objective;
  const std::vector<std::size_t> drawn = drawn_axes(study);
  const auto on_drawn = [&](const std::vector<std::size_t>& at) {
    std::vector<std::size_t> places;
    for (const std::size_t a : drawn) places.push_back(at[a]);
    return places;
  };
  for (const std::size_t a : drawn) page.axes.push_back(drawn_axis(study.axes[a]));
  const std::vector<std::optional<double>> scaling = scaling_efficiencies(study);
  page.work = "1 M samples";
  for (std::size_t p = 0; p < study.points.size(); ++p) {
    if (!study.points[p]) continue;
    page.points.push_back({on_drawn(place_of_point(study.axes, p)), *study.points[p], scaling[p],
                           cost_of_work(*study.points[p])});
    if (study.points[p]->tokens_per_s) page.work = "1 B tokens";
  }
  for (const Crossover& c : study.crossovers) {
    const auto axis = std::ranges::find(drawn, c.axis);
    if (axis == drawn.end()) continue;
    DrawnCrossover crossover{static_cast<std::size_t>(axis - drawn.begin()),
                             short_value(c.low),
                             short_value(c.high),
                             c.from,
                             c.to,
                             "",
                             -1};
    crossover.others = other_values(page, on_drawn(c.before), crossover.axis);
    const DrawnStudyAxis& on = page.axes[crossover.axis];
    const std::optional<double> low = place_on(on, c.low), high = place_on(on, c.high);
    if (low && high) crossover.place = (*low + *high) / 2;
    page.crossovers.push_back(std::move(crossover));
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
  for (const DrawnStudyPoint& p : page.points) {
    const PointResult& r = p.result;
    if (!r.error.empty()) {
      points.push_back({{"at", p.at}, {"error", r.error}});
      continue;
    }
    points.push_back({{"at", p.at},
                      {"seconds", r.time_s},
                      {"objective", number(r.objective_s)},
                      {"tokens", number(r.tokens_per_s)},
                      {"samples", r.samples_per_s},
                      {"scaling", number(p.scaling)},
                      {"mfu", number(r.mfu)},
                      {"devices", r.devices},
                      {"memory", r.memory_bytes},
                      {"price", number(r.price_per_hour)},
                      {"cost", number(p.cost)},
                      {"fits", r.fits},
                      {"plan", r.kind},
                      {"recipe", r.recipe}});
  }
  for (const DrawnCrossover& c : page.crossovers)
    crossovers.push_back({{"axis", c.axis},
                          {"low", c.low},
                          {"high", c.high},
                          {"from", c.from},
                          {"to", c.to},
                          {"others", c.others},
                          {"place", c.place}});
  for (const PageTable& t : page.tables) tables.push_back(json_of(t));
  return {{"kind", "study"},  {"name", page.name},           {"facts", json_of(page.facts)},
          {"axes", axes},     {"objective", page.objective}, {"work", page.work},
          {"points", points}, {"crossovers", crossovers},    {"tables", tables}};
}

}  // namespace pipesim
