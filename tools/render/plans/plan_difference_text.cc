#include "tools/render/plans/plan_difference_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "tools/base/figures.h"
#include "tools/render/base/table.h"

namespace pipesim {
namespace {

using Json = nlohmann::ordered_json;

std::string text_of(std::int64_t value, FigureChange::Unit unit) {
  return unit == FigureChange::Unit::Size ? pretty(Bytes(value)) : pretty(to_seconds(value));
}

std::string difference_text(const FigureChange& f) {
  const std::int64_t difference = f.after - f.before;
  if (difference == 0) return "same";
  return (difference < 0 ? "-" : "+") + text_of(std::abs(difference), f.unit);
}

std::string relative_text(const FigureChange& f) {
  if (f.before == 0 || f.after == f.before) return "";
  const double ratio = static_cast<double>(f.after) / static_cast<double>(f.before);
  constexpr double kTooManyPercent = 10;
  return ratio < kTooManyPercent ? fmt::format("{:+.1f} %", 100 * (ratio - 1)) : "x " + significant(ratio, 3);
}

std::string figures_text(const std::vector<FigureChange>& figures, const std::array<std::string, 2>& names) {
  Table table({{""},
               {names[0], Align::Right},
               {names[1], Align::Right},
               {"difference", Align::Right},
               {"", Align::Right}});
  for (const FigureChange& f : figures) {
    if (f.before == 0 && f.after == 0) continue;
    table.add({std::string(f.name), text_of(f.before, f.unit), text_of(f.after, f.unit), difference_text(f),
               relative_text(f)});
  }
  return table.str(2);
}

std::string time_text(Nanoseconds time) { return pretty(to_seconds(time)); }

// Those from `first` on, as one.
ChangedOperators together(const std::vector<ChangedOperators>& changes, std::size_t first) {
  ChangedOperators all;
  for (std::size_t i = first; i < changes.size(); ++i) {
    const std::vector<OperatorId>& operators = changes[i].group.operators;
    all.group.operators.insert(all.group.operators.end(), operators.begin(), operators.end());
    all.before += changes[i].before;
    all.after += changes[i].after;
  }
  all.group.words = fmt::format("… and {} more", changes.size() - first);
  return all;
}

std::string changes_text(const PlanDifference& difference, const OperatorGraph& graph, std::size_t most) {
  const OperatorCosts &before = difference.before, &after = difference.after;
  Table table({{"split before -> now"},
               {"operators", Align::Right},
               {"compute", Align::Right},
               {"compute time, all devices", Align::Right},
               {"time on links, all links", Align::Right},
               {"such as"}});
  const auto arrow = [](const std::string& from, const std::string& to) { return from + " -> " + to; };
  const auto add = [&](const ChangedOperators& c) {
    constexpr std::size_t kNames = 2;
    table.add({c.group.words, std::to_string(c.group.operators.size()),
               arrow(percent(share(c.before.compute, before.compute)),
                     percent(share(c.after.compute, after.compute))),
               arrow(time_text(c.before.compute), time_text(c.after.compute)),
               arrow(time_text(c.before.on_links), time_text(c.after.on_links)),
               some_names(graph, c.group, kNames)});
  };
  const std::size_t shown = std::min(most, difference.changes.size());
  std::for_each_n(difference.changes.begin(), shown, add);
  if (shown < difference.changes.size()) add(together(difference.changes, shown));
  if (!difference.unchanged.group.operators.empty()) add(difference.unchanged);
  return table.str(2);
}

Json pair_json(const Json& before, const Json& after) { return {{"baseline", before}, {"plan", after}}; }

Json costs_json(const ChangedOperators& c, const PlanDifference& difference) {
  return {{"compute_share", pair_json(share(c.before.compute, difference.before.compute),
                                      share(c.after.compute, difference.after.compute))},
          {"compute_s", pair_json(seconds(c.before.compute), seconds(c.after.compute))},
          {"on_links_s", pair_json(seconds(c.before.on_links), seconds(c.after.on_links))},
          {"moved_bytes", pair_json(c.before.moved.value, c.after.moved.value)}};
}

Json change_json(const ChangedOperators& c, const PlanDifference& difference, const OperatorGraph& graph) {
  Json names = Json::array();
  for (const OperatorId op : c.group.operators) names.push_back(graph.op(op).name);
  Json json{{"from", c.from}, {"to", c.to}, {"operators", names}};
  json.update(costs_json(c, difference));
  return json;
}

}  // namespace

std::string to_text(const PlanDifference& difference, const OperatorGraph& graph,
                    const std::array<std::string, 2>& names, std::size_t most) {
  return figures_text(difference.figures, names) + "\n" + changes_text(difference, graph, most);
}

nlohmann::ordered_json json_of(const PlanDifference& difference, const OperatorGraph& graph) {
  Json figures = Json::object(), changes = Json::array();
  for (const FigureChange& f : difference.figures) {
    figures[std::string(f.key)] = f.unit == FigureChange::Unit::Size
                                      ? pair_json(f.before, f.after)
                                      : pair_json(seconds(f.before), seconds(f.after));
  }
  for (const ChangedOperators& c : difference.changes) changes.push_back(change_json(c, difference, graph));
  Json unchanged{{"operators", difference.unchanged.group.operators.size()}};
  unchanged.update(costs_json(difference.unchanged, difference));
  return Json{{"figures", figures}, {"changes", changes}, {"unchanged", unchanged}};
}

}  // namespace pipesim
