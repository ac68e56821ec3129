#include "tools/render/whatif/study_json.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "sim/base/file_kind.h"

namespace pipesim {
namespace {

using Json = nlohmann::ordered_json;

Json json_of_point(const Study& study, std::size_t number) {
  const PointResult& p = *study.points[number];
  Json json{{"at", place_of_point(study.axes, number)}};
  if (!p.error.empty()) {
    json["error"] = p.error;
    return json;
  }
  json.update({{"recipe", p.recipe},
               {"kind", p.kind},
               {"time_s", p.time_s},
               {"samples_per_s", p.samples_per_s},
               {"devices", p.devices},
               {"memory_bytes", p.memory_bytes},
               {"fits", p.fits}});
  if (p.tokens_per_s) json["tokens_per_s"] = *p.tokens_per_s;
  if (p.mfu) json["mfu"] = *p.mfu;
  if (!p.counted.empty()) json["mfu_counts"] = p.counted;
  if (p.price_per_hour) json["price_per_hour"] = *p.price_per_hour;
  if (const auto cost = cost_of_work(p)) json["cost"] = *cost;
  if (p.objective_s) json["objective_s"] = *p.objective_s;
  if (!p.opaque.empty()) json["opaque_operators"] = p.opaque;
  return json;
}

constexpr double kMostInStudy = 1e300;
constexpr std::int64_t kMostCountedInStudy = std::int64_t{1} << 53;

std::optional<double> study_number(const JsonValue& json, const char* key) {
  const auto value = json.find(key);
  return value ? std::optional(value->number(0, kMostInStudy)) : std::nullopt;
}

PointResult study_point(const JsonValue& json) {
  PointResult p;
  if (const auto error = json.find("error")) {
    p.error = error->string();
    return p;
  }
  p.recipe = json.at("recipe").string();
  p.kind = json.at("kind").string();
  p.time_s = json.at("time_s").number(0, kMostInStudy);
  p.samples_per_s = json.at("samples_per_s").number(0, kMostInStudy);
  p.devices = json.at("devices").integer(1, kMostCountedInStudy);
  p.memory_bytes = json.at("memory_bytes").integer(0, kMostCountedInStudy);
  p.fits = json.at("fits").boolean();
  p.tokens_per_s = study_number(json, "tokens_per_s");
  p.mfu = study_number(json, "mfu");
  if (const auto counted = json.find("mfu_counts")) p.counted = counted->string();
  p.price_per_hour = study_number(json, "price_per_hour");
  p.objective_s = study_number(json, "objective_s");
  if (const auto opaque = json.find("opaque_operators")) p.opaque = opaque->string();
  return p;
}

// Which value of each axis a point has.
std::vector<std::size_t> places_in_study(const JsonValue& json, const std::vector<StudyAxis>& axes) {
  const std::vector<JsonValue> list = json.items();
  if (list.size() != axes.size())
    json.fail(fmt::format("found {} places, allowed: {}, one for each axis", list.size(), axes.size()));
  std::vector<std::size_t> places;
  for (std::size_t a = 0; a < axes.size(); ++a)
    places.push_back(
        static_cast<std::size_t>(list[a].integer(0, static_cast<std::int64_t>(axes[a].values.size()) - 1)));
  return places;
}

std::size_t number_in_study(const std::vector<StudyAxis>& axes, const std::vector<std::size_t>& at) {
  std::size_t number = 0;
  for (std::size_t i = 0; i < axes.size(); ++i) number = number * axes[i].values.size() + at[i];
  return number;
}

void read_points(const JsonValue& points, Study& study) {
  for (const JsonValue& point : points.items())
    study.points[number_in_study(study.axes, places_in_study(point.at("at"), study.axes))] =
        study_point(point);
}

PointPlans point_plans(const JsonValue& json) {
  for (const PointPlans plans : {PointPlans::Same, PointPlans::Recipes, PointPlans::Search}) {
    if (json.string() == name_of(plans)) return plans;
  }
  json.fail(fmt::format("found \"{}\", allowed: same, recipes, search", json.string()));
}

std::vector<std::string> study_texts(const JsonValue& json) {
  std::vector<std::string> texts;
  for (const JsonValue& text : json.items()) texts.push_back(text.string());
  return texts;
}

Crossover study_crossover(const JsonValue& json, const std::vector<StudyAxis>& axes) {
  const std::string path = json.at("axis").string();
  const auto axis = std::ranges::find(axes, path, &StudyAxis::path);
  if (axis == axes.end()) {
    std::vector<std::string> paths;
    for (const StudyAxis& a : axes) paths.push_back(a.path);
    json.at("axis").fail(fmt::format("found \"{}\", allowed: {}", path, fmt::join(paths, ", ")));
  }
  return {static_cast<std::size_t>(axis - axes.begin()),
          places_in_study(json.at("before"), axes),
          json.at("low").string(),
          json.at("high").string(),
          json.at("from").string(),
          json.at("to").string()};
}

}  // namespace

Json json_of(const Study& study) {
  Json json{{"pipesim_study", 1},
            {"arguments", study.words},
            {"plans", name_of(study.plans)},
            {"objective", study.objective},
            {"model", study.model},
            {"model_fingerprint", study.model_fingerprint},
            {"axes", Json::array()},
            {"points", Json::array()},
            {"crossovers", Json::array()}};
  for (const StudyAxis& axis : study.axes)
    json["axes"].push_back({{"name", axis.path}, {"values", axis.values}});
  for (std::size_t i = 0; i < study.points.size(); ++i) {
    if (study.points[i]) json["points"].push_back(json_of_point(study, i));
  }
  for (const Crossover& c : study.crossovers)
    json["crossovers"].push_back({{"axis", study.axes[c.axis].path},
                                  {"before", c.before},
                                  {"low", c.low},
                                  {"high", c.high},
                                  {"from", c.from},
                                  {"to", c.to}});
  return json;
}

Study study_of(const JsonValue& root) {
  constexpr int kVersion = 1;
  require_file_kind(root, kStudyKey);
  (void)root.at(kStudyKey).integer(kVersion, kVersion);
  Study study;
  study.words = study_texts(root.at("arguments"));
  study.plans = point_plans(root.at("plans"));
  study.objective = root.at("objective").string();
  study.model = root.at("model").string();
  study.model_fingerprint = root.at("model_fingerprint").string();
  for (const JsonValue& axis : root.at("axes").items())
    study.axes.push_back({axis.at("name").string(), study_texts(axis.at("values"))});
  constexpr std::size_t kMostPoints = 100'000'000;
  const std::size_t points = number_of_points(study.axes);
  if (points == 0 || points > kMostPoints)
    root.at("axes").fail(fmt::format("they have {} points, allowed: 1 to {}", points, kMostPoints));
  study.points.resize(points);
  read_points(root.at("points"), study);
  if (const auto list = root.find("crossovers")) {
    for (const JsonValue& c : list->items()) study.crossovers.push_back(study_crossover(c, study.axes));
  }
  return study;
}

Study read_study(const std::string& file) { return study_of(JsonDocument::load(file)); }

Study study_in(const std::string& text, const std::string& file) {
  return study_of(JsonDocument::parse(text, file));
}

std::string text_of_points(const Study& study, std::span<const std::size_t> numbers) {
  Json points = Json::array();
  for (const std::size_t number : numbers) points.push_back(json_of_point(study, number));
  return points.dump();
}

void add_points(Study& study, const std::string& text) {
  read_points(JsonDocument::parse(text, "points of another process"), study);
}

}  // namespace pipesim
