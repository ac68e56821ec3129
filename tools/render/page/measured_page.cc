#include "tools/render/page/measured_page.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "sim/base/units.h"

namespace pipesim {
namespace {

using Json = nlohmann::ordered_json;

constexpr double kMostMeasured = 1e15;
constexpr std::int64_t kMostCounted = std::int64_t{1} << 53;

MeasuredPair iteration_of(const JsonValue& run, const std::string& name) {
  const auto measured = run.find("measured_s");
  if (!measured) run.fail("nothing was measured; allowed: what \"pipesim execute … --json\" prints of a run");
  return {name,
          run.at("predicted_s").number(0, kMostMeasured),
          measured->at("median").number(0, kMostMeasured),
          measured->at("low").number(0, kMostMeasured),
          measured->at("high").number(0, kMostMeasured),
          0};
}

std::vector<MeasuredPair> pairs_of(const JsonValue& run, const char* key) {
  std::vector<MeasuredPair> pairs;
  const auto list = run.find(key);
  if (!list) return pairs;
  for (const JsonValue& row : list->items())
    pairs.push_back({row.at("name").string(), row.at("predicted_s").number(0, kMostMeasured),
                     row.at("measured_s").number(0, kMostMeasured), std::nullopt, std::nullopt,
                     row.at("tasks").integer(0, kMostCounted)});
  sort_by_difference(pairs);
  return pairs;
}

PageTable measured_memory_table(const JsonValue& run) {
  PageTable table{
      "Peak memory", "", {{"device"}, {"predicted", true}, {"measured", true}, {"workspace", true}}, {}};
  const auto list = run.find("memory");
  if (!list) return table;
  const auto bytes = [](const JsonValue& row, const char* key) {
    return pretty(Bytes(row.at(key).integer(0, kMostCounted)));
  };
  for (const JsonValue& row : list->items()) {
    if (row.at("predicted_bytes").integer(0, kMostCounted) == 0 &&
        row.at("measured_bytes").integer(0, kMostCounted) == 0)
      continue;
    table.rows.push_back({row.at("device").string(), bytes(row, "predicted_bytes"),
                          bytes(row, "measured_bytes"), bytes(row, "workspace_bytes")});
  }
  return table;
}

std::string pair_error_text(const MeasuredPair& p) {
  return p.measured > 0 ? fmt::format("{:+.1f} %", 100 * (p.predicted - p.measured) / p.measured) : "";
}

void add_agreement(const JsonValue& root, MeasuredPage& page) {
  if (const auto same = root.find("same_order"))
    page.facts.push_back(
        {"predicted order", same->boolean() ? "is the measured order" : "is not the measured order"});
  if (const auto spearman = root.find("spearman"); spearman && spearman->is_number())
    page.facts.push_back({"rank correlation", fmt::format("{:.3f} (Spearman)", spearman->number(-1, 1))});
}

}  // namespace

PageTable measured_pairs_table(const std::string& title, const std::vector<MeasuredPair>& pairs) {
  const bool of_tasks = std::ranges::any_of(pairs, [](const MeasuredPair& p) { return p.tasks > 0; });
  PageTable table{title, "", {{"name"}}, {}};
  if (of_tasks) table.columns.push_back({"tasks", true});
  for (const char* column : {"predicted", "measured", "difference", "error"})
    table.columns.push_back({column, true});
  for (const MeasuredPair& p : pairs) {
    std::vector<std::string> row{p.name};
    if (of_tasks) row.push_back(std::to_string(p.tasks));
    const double difference = p.predicted - p.measured;
    for (std::string& text : std::vector<std::string>{
             pretty(Seconds(p.predicted)), pretty(Seconds(p.measured)),
             (difference < 0 ? "-" : "+") + pretty(Seconds(std::abs(difference))), pair_error_text(p)})
      row.push_back(std::move(text));
    table.rows.push_back(std::move(row));
  }
  return table;
}

void sort_by_difference(std::vector<MeasuredPair>& pairs) {
  std::ranges::stable_sort(pairs, std::greater<>(),
                           [](const MeasuredPair& p) { return std::abs(p.predicted - p.measured); });
}

void add_iteration_facts(MeasuredPage& page) {
  const MeasuredPair& iteration = page.iterations.front();
  page.facts.push_back({"predicted", pretty(Seconds(iteration.predicted))});
  std::string measured = pretty(Seconds(iteration.measured));
  if (iteration.low && iteration.high)
    measured += fmt::format(" ({} to {})", pretty(Seconds(*iteration.low)), pretty(Seconds(*iteration.high)));
  page.facts.push_back({"measured", measured});
  const std::string error = pair_error_text(iteration);
  if (error.empty()) return;
  constexpr double kSame = 0.0005;
  const double difference = iteration.predicted - iteration.measured;
  const bool same = std::abs(difference) < kSame * iteration.measured;
  page.facts.push_back(
      {"error",
       same ? "0.0 %" : fmt::format("{}, predicted too {}", error, difference < 0 ? "short" : "long")});
}

MeasuredPage measured_page_of(const JsonValue& root) {
  MeasuredPage page;
  page.name = root.source();
  if (const auto plans = root.find("plans")) {
    add_agreement(root, page);
    for (const JsonValue& plan : plans->items())
      page.iterations.push_back(iteration_of(plan, plan.at("name").string()));
    if (page.iterations.empty()) plans->fail("no plans, allowed: at least one");
    page.tables.push_back(measured_pairs_table("Iterations", page.iterations));
    return page;
  }
  for (const char* key : {"model", "topology", "backend", "times_by"}) {
    if (const auto value = root.find(key)) page.facts.push_back({key, value->string()});
  }
  page.iterations.push_back(iteration_of(root, "iteration"));
  add_iteration_facts(page);
  if (const auto noisy = root.find("not_quiet")) {
    std::erase_if(page.facts, [](const PageFact& f) { return f.label == "error"; });
    page.facts.push_back({"no error is given", noisy->string()});
  }
  page.operators = pairs_of(root, "operators");
  page.links = pairs_of(root, "links");
  page.tables.push_back(measured_pairs_table("Operators, all devices together", page.operators));
  page.tables.push_back(measured_pairs_table("Transfers", page.links));
  page.tables.push_back(measured_memory_table(root));
  std::erase_if(page.tables, [](const PageTable& t) { return t.rows.empty(); });
  return page;
}

nlohmann::ordered_json json_of(const MeasuredPage& page) {
  const auto list_of = [](const std::vector<MeasuredPair>& pairs) {
    Json list = Json::array();
    for (const MeasuredPair& p : pairs) {
      Json& row =
          list.emplace_back(Json{{"name", p.name}, {"predicted", p.predicted}, {"measured", p.measured}});
      if (p.low) row["low"] = *p.low;
      if (p.high) row["high"] = *p.high;
    }
    return list;
  };
  Json tables = Json::array();
  for (const PageTable& t : page.tables) tables.push_back(json_of(t));
  Json json{{"kind", "measured"},
            {"name", page.name},
            {"facts", json_of(page.facts)},
            {"iterations", list_of(page.iterations)},
            {"operators", list_of(page.operators)},
            {"links", list_of(page.links)},
            {"tables", tables}};
  if (page.timeline) json["timeline"] = json_of(*page.timeline);
  return json;
}

}  // namespace pipesim
