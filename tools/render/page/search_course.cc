#include "tools/render/page/search_course.h"

#include <fmt/format.h>

#include <charconv>
#include <limits>
#include <nlohmann/json.hpp>
#include <sstream>

#include "sim/base/errors.h"
#include "sim/base/file_kind.h"
#include "tools/base/split.h"

namespace pipesim {
namespace {

using Json = nlohmann::ordered_json;

class LogReader {
 public:
  LogReader(std::string_view text, const std::string& file) : text_(text), file_(file) {}

  std::vector<SearchMoment> moments() {
    std::vector<SearchMoment> list;
    std::istringstream lines{std::string(text_)};
    std::string line;
    while (std::getline(lines, line)) {
      ++number_;
      if (!line.empty() && line.back() == '\r') line.pop_back();
      if (number_ == 1 || line.empty()) continue;
      // A search that still runs may be in the middle of writing a row.
      if (lines.eof() && (text_.empty() || text_.back() != '\n')) break;
      list.push_back(moment(line));
      if (list.size() > 1 && list.back().seconds < list[list.size() - 2].seconds)
        fail(fmt::format("{} seconds, allowed: no less than the row before, {}", list.back().seconds,
                         list[list.size() - 2].seconds));
    }
    if (list.empty()) throw InputError(file_ + ": this log of a search has no rows; allowed: at least one");
    return list;
  }

 private:
  SearchMoment moment(const std::string& line) {
    const std::vector<std::string> fields = split(line, ",");
    if (fields.size() != 4)
      fail(fmt::format("found {} fields, allowed: 4, {}", fields.size(), kSearchLogHeader));
    SearchMoment m;
    m.seconds = number<double>(fields[0], "seconds");
    m.proposals = number<std::int64_t>(fields[1], "proposals");
    if (!fields[2].empty()) m.best = number<double>(fields[2], "best");
    if (!fields[3].empty()) m.chain = number<std::int32_t>(fields[3], "chain");
    return m;
  }

  template <class T>
  T number(const std::string& text, const char* field) const {
    T value{};
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc() || end != text.data() + text.size() || !(value >= 0) ||
        value > std::numeric_limits<T>::max())
      fail(fmt::format("{} \"{}\", allowed: a number from 0 on", field, text));
    return value;
  }

  [[noreturn]] void fail(const std::string& message) const {
    throw InputError(fmt::format("{}:{}: {}", file_, number_, message));
  }

  std::string_view text_;
  const std::string& file_;
  int number_ = 0;
};

}  // namespace

SearchCourse search_course_of_log(std::string_view text, const std::string& file) {
  SearchCourse course;
  course.name = file;
  course.moments = LogReader(text, file).moments();
  return course;
}

namespace {

constexpr double kMostOfSearch = 1e15;
constexpr std::int64_t kMostProposals = std::int64_t{1} << 53;

void read_history(const JsonValue& root, SearchCourse& course) {
  for (const JsonValue& row : root.at("history").items())
    course.moments.push_back({row.at("wall_time_s").number(0, kMostOfSearch),
                              row.at("proposals").integer(0, kMostProposals),
                              row.at("iteration_time_s").number(0, kMostOfSearch),
                              static_cast<std::int32_t>(row.at("chain").integer(-1, 1 << 20))});
  const JsonValue search = root.at("search");
  course.facts.push_back({"algorithm", search.at("algorithm").string()});
  SearchMoment end;
  end.seconds = search.at("wall_time_s").number(0, kMostOfSearch);
  end.proposals = search.at("proposals").integer(0, kMostProposals);
  if (!course.moments.empty()) end.best = course.moments.back().best;
  if (course.moments.empty() || end.seconds >= course.moments.back().seconds) course.moments.push_back(end);
}

void read_baselines(const JsonValue& baselines, SearchCourse& course) {
  for (const JsonValue& b : baselines.items()) {
    if (const auto time = b.find("iteration_time_s"); time && time->is_number())
      course.baselines.emplace_back(b.at("name").string(), time->number(0, kMostOfSearch));
  }
}

// The member "fits" is null for an algorithm that found nothing.
std::string fits_text(const JsonValue& row) {
  const auto fits = row.find("fits");
  if (!fits || fits->kind() == "null") return "";
  return fits->boolean() ? "yes" : "no";
}

PageTable contributions_table(const JsonValue& list) {
  PageTable table{
      "Algorithms",
      "",
      {{"algorithm"}, {"iteration", true}, {"fits"}, {"devices", true}, {"search", true}, {"note"}},
      {}};
  for (const JsonValue& row : list.items()) {
    const auto time = row.find("iteration_time_s");
    const auto note = row.find("note");
    table.rows.push_back(
        {row.at("algorithm").string(),
         time && time->is_number() ? pretty(Seconds(time->number(0, kMostOfSearch))) : "", fits_text(row),
         row.find("devices_used") && row.at("devices_used").is_number() ? row.at("devices_used").text() : "",
         row.find("wall_time_s") && row.at("wall_time_s").is_number()
             ? pretty(Seconds(row.at("wall_time_s").number(0, kMostOfSearch)))
             : "",
         note && note->is_string() ? note->string() : ""});
  }
  return table;
}

PageTable recipes_table(const std::vector<FoundPlan>& plans) {
  PageTable table{"Recipes", "", {{"recipe"}, {"iteration", true}, {"memory", true}}, {}};
  for (const FoundPlan& p : plans)
    table.rows.push_back({p.recipe, pretty(Seconds(p.seconds)), pretty(p.memory)});
  return table;
}

}  // namespace

bool is_search_result(const JsonValue& root) {
  return root.find("best") && root.find("iteration_time_s") &&
         (root.find("history") || root.find("contributions") || root.find("recipes"));
}

SearchCourse search_course_of_json(const JsonValue& root) {
  SearchCourse course;
  course.name = root.source();
  for (const char* key : {"model", "topology", "best", "recipe"}) {
    if (const auto value = root.find(key); value && value->is_string() && !value->string().empty())
      course.facts.push_back({key, value->string()});
  }
  course.facts.push_back(
      {"iteration", pretty(Seconds(root.at("iteration_time_s").number(0, kMostOfSearch)))});
  if (root.find("history")) read_history(root, course);
  if (const auto reason = root.find("reason")) {
    if (const auto text = reason->is_object() ? reason->find("text") : std::nullopt)
      course.facts.push_back({"why", text->string()});
  }
  if (const auto bound = root.find("lower_bound_s"); bound && bound->is_number())
    course.lower_bound = bound->number(0, kMostOfSearch);
  if (const auto baselines = root.find("baselines"); baselines && baselines->is_array())
    read_baselines(*baselines, course);
  if (const auto recipes = root.find("recipes"); recipes && recipes->is_object()) {
    for (const JsonValue& row : recipes->at("best").items())
      course.plans.push_back({row.at("recipe").string(), row.at("iteration_time_s").number(0, kMostOfSearch),
                              Bytes(row.at("memory_bytes").integer(0, kMostProposals))});
    course.tables.push_back(recipes_table(course.plans));
  }
  if (const auto list = root.find("contributions"); list && !list->items().empty())
    course.tables.push_back(contributions_table(*list));
  return course;
}

nlohmann::ordered_json json_of(const SearchCourse& course) {
  Json seconds = Json::array(), proposals = Json::array(), best = Json::array(), chain = Json::array();
  for (const SearchMoment& m : course.moments) {
    seconds.push_back(m.seconds);
    proposals.push_back(m.proposals);
    best.push_back(m.best ? Json(*m.best) : Json(nullptr));
    chain.push_back(m.chain);
  }
  Json baselines = Json::array(), plans = Json::array(), tables = Json::array();
  for (const auto& [name, time] : course.baselines) baselines.push_back({{"name", name}, {"seconds", time}});
  Json json{{"kind", "search"},   {"name", course.name},    {"facts", json_of(course.facts)},
            {"seconds", seconds}, {"proposals", proposals}, {"best", best},
            {"chain", chain},     {"baselines", baselines}};
  for (const FoundPlan& p : course.plans)
    plans.push_back({{"recipe", p.recipe}, {"seconds", p.seconds}, {"memory", p.memory.value}});
  for (const PageTable& t : course.tables) tables.push_back(json_of(t));
  json["plans"] = std::move(plans);
  json["tables"] = std::move(tables);
  if (course.lower_bound) json["lower_bound"] = *course.lower_bound;
  return json;
}

}  // namespace pipesim
