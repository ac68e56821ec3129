#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "sim/base/errors.h"
#include "sim/base/files.h"
#include "tools/whatif/study.h"

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
  if (p.price_per_hour) json["price_per_hour"] = *p.price_per_hour;
  if (const auto cost = cost_of_work(p)) json["cost"] = *cost;
  if (p.objective_s) json["objective_s"] = *p.objective_s;
  return json;
}

PointResult point_of(const Json& json) {
  PointResult p;
  if (json.contains("error")) {
    p.error = json.at("error").get<std::string>();
    return p;
  }
  p.recipe = json.at("recipe").get<std::string>();
  p.kind = json.at("kind").get<std::string>();
  p.time_s = json.at("time_s").get<double>();
  p.samples_per_s = json.at("samples_per_s").get<double>();
  p.devices = json.at("devices").get<std::int64_t>();
  p.memory_bytes = json.at("memory_bytes").get<std::int64_t>();
  p.fits = json.at("fits").get<bool>();
  if (json.contains("tokens_per_s")) p.tokens_per_s = json.at("tokens_per_s").get<double>();
  if (json.contains("mfu")) p.mfu = json.at("mfu").get<double>();
  if (json.contains("price_per_hour")) p.price_per_hour = json.at("price_per_hour").get<double>();
  if (json.contains("objective_s")) p.objective_s = json.at("objective_s").get<double>();
  return p;
}

// The number of the point at these places, or an error.
std::size_t number_of(const std::vector<StudyAxis>& axes, const std::vector<std::size_t>& at) {
  if (at.size() != axes.size())
    throw InputError(fmt::format("found {} places, {} are needed", at.size(), axes.size()));
  std::size_t number = 0;
  for (std::size_t i = 0; i < axes.size(); ++i) {
    if (at[i] >= axes[i].values.size())
      throw InputError(fmt::format("found place {} of {}, allowed: 0 to {}", at[i], axes[i].path,
                                   axes[i].values.size() - 1));
    number = number * axes[i].values.size() + at[i];
  }
  return number;
}

void read_points(const Json& points, Study& study) {
  std::size_t i = 0;
  for (const Json& point : points) {
    const std::string place = fmt::format("/points/{}", i++);
    try {
      study.points[number_of(study.axes, point.at("at").get<std::vector<std::size_t>>())] = point_of(point);
    } catch (const Json::exception& error) {
      throw InputError(fmt::format("{}: {}", place, error.what()));
    } catch (const InputError& error) {
      throw InputError(fmt::format("{}/at: {}", place, error.what()));
    }
  }
}

PointPlans plans_named(const std::string& name) {
  for (const PointPlans plans : {PointPlans::Same, PointPlans::Recipes, PointPlans::Search}) {
    if (name == name_of(plans)) return plans;
  }
  throw InputError(fmt::format("/plans: found \"{}\", allowed: same, recipes, search", name));
}

Study study_of(const Json& json) {
  constexpr int kVersion = 1;
  if (!json.is_object() || !json.contains("pipesim_study"))
    throw InputError("is no study, pipesim_study is missing");
  if (json.at("pipesim_study") != kVersion)
    throw InputError(
        fmt::format("/pipesim_study: found {}, allowed: {}", json.at("pipesim_study").dump(), kVersion));
  Study study;
  study.words = json.at("arguments").get<std::vector<std::string>>();
  study.plans = plans_named(json.at("plans").get<std::string>());
  study.objective = json.at("objective").get<std::string>();
  study.model = json.at("model").get<std::string>();
  study.model_fingerprint = json.at("model_fingerprint").get<std::string>();
  for (const Json& axis : json.at("axes"))
    study.axes.push_back(
        {axis.at("name").get<std::string>(), axis.at("values").get<std::vector<std::string>>()});
  constexpr std::size_t kMostOfFile = 100'000'000;
  const std::size_t points = number_of_points(study.axes);
  if (points == 0 || points > kMostOfFile)
    throw InputError(fmt::format("/axes: they have {} points, allowed: 1 to {}", points, kMostOfFile));
  study.points.resize(points);
  read_points(json.at("points"), study);
  if (!json.contains("crossovers")) return study;
  for (const Json& c : json.at("crossovers")) {
    Crossover crossover{0,
                        c.at("before").get<std::vector<std::size_t>>(),
                        c.at("low").get<std::string>(),
                        c.at("high").get<std::string>(),
                        c.at("from").get<std::string>(),
                        c.at("to").get<std::string>()};
    while (crossover.axis < study.axes.size() && study.axes[crossover.axis].path != c.at("axis"))
      ++crossover.axis;
    if (crossover.axis == study.axes.size())
      throw InputError(
          fmt::format("/crossovers: found the axis {}, which there is not", c.at("axis").dump()));
    study.crossovers.push_back(std::move(crossover));
  }
  return study;
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

std::string text_of_points(const Study& study, std::span<const std::size_t> numbers) {
  Json points = Json::array();
  for (const std::size_t number : numbers) points.push_back(json_of_point(study, number));
  return points.dump();
}

void add_points(Study& study, const std::string& text) { read_points(Json::parse(text), study); }

Study read_study(const std::string& file) { return study_in(read_file(file), file); }

Study study_in(const std::string& text, const std::string& file) {
  try {
    return study_of(Json::parse(text));
  } catch (const Json::exception& error) {
    throw InputError(fmt::format("{}: {}", file, error.what()));
  } catch (const InputError& error) {
    throw InputError(fmt::format("{}: {}", file, error.what()));
  }
}

}  // namespace pipesim
