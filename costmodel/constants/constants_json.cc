#include <fmt/format.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "costmodel/constants/cluster_constants.h"
#include "sim/base/errors.h"
#include "sim/base/file_kind.h"
#include "sim/base/json_reader.h"

namespace pipesim {
namespace {

constexpr double kLeastFactor = 1e-3, kMostFactor = 1e3;
constexpr std::int64_t kMostRuns = 1'000'000'000;

Constant constant_at(const JsonValue& json) {
  json.allow_only({"constant", "runtime", "factor", "interval"});
  Constant constant;
  const JsonValue kind = json.at("constant");
  try {
    constant.kind = parse_constant_kind(kind.string());
  } catch (const InputError& error) {
    kind.fail(error.what());
  }
  if (const auto runtime = json.find("runtime")) constant.runtime = runtime->string();
  if ((constant.kind == ConstantKind::Host) == constant.runtime.empty())
    json.fail(
        "found a constant that is not of a runtime, allowed: \"runtime\" with \"host\", and with it alone");
  constant.log = std::log(json.at("factor").number(kLeastFactor, kMostFactor));
  return constant;
}

// A matrix of variances: symmetric, and nothing has more in common with another than with itself.
std::vector<double> covariance_at(const JsonValue& json, std::size_t count) {
  std::vector<double> matrix;
  const std::vector<JsonValue> rows = json.items();
  for (const JsonValue& row : rows) {
    const std::vector<JsonValue> numbers = row.items();
    if (rows.size() != count || numbers.size() != count)
      json.fail(fmt::format("found {} rows, one of {} numbers, allowed: {} of {}", rows.size(),
                            numbers.size(), count, count));
    for (const JsonValue& number : numbers) matrix.push_back(number.number(-100, 100));
  }
  if (matrix.size() != count * count) json.fail(fmt::format("found no rows, allowed: {}", count));
  for (std::size_t i = 0; i < count; ++i) {
    for (std::size_t j = 0; j < count; ++j) {
      const double both = matrix[i * count + j], bound = matrix[i * count + i] * matrix[j * count + j];
      if (matrix[i * count + i] < 0 || both * both > bound * (1 + 1e-6) + 1e-30 ||
          std::abs(both - matrix[j * count + i]) > 1e-9 * (1 + std::abs(both)))
        json.fail(fmt::format("the numbers {} and {} of row {} are no covariance", i, j, i));
    }
  }
  return matrix;
}

void require_different(const std::vector<Constant>& constants, const JsonValue& json) {
  for (std::size_t i = 0; i < constants.size(); ++i) {
    for (std::size_t j = 0; j < i; ++j) {
      if (constants[i].kind == constants[j].kind && constants[i].runtime == constants[j].runtime)
        json.fail(fmt::format("found \"{}\" twice", constants[i].text()));
    }
  }
}

}  // namespace

std::string to_json(const ClusterConstants& constants) {
  using Json = nlohmann::ordered_json;
  Json list = Json::array(), covariance = Json::array();
  const std::size_t count = constants.constants.size();
  for (std::size_t i = 0; i < count; ++i) {
    const Constant& constant = constants.constants[i];
    const PredictionInterval interval = interval_of_factor(constants, i);
    Json json{{"constant", name_of(constant.kind)}};
    if (!constant.runtime.empty()) json["runtime"] = constant.runtime;
    json["factor"] = std::exp(constant.log);
    json["interval"] = {interval.low.value, interval.high.value};
    list.push_back(std::move(json));
    Json row = Json::array();
    for (std::size_t j = 0; j < count; ++j) row.push_back(constants.covariance[i * count + j]);
    covariance.push_back(std::move(row));
  }
  return Json{{std::string(kConstantsKey), 1},
              {"device", constants.device},
              {"constants", list},
              {"covariance", covariance},
              {"discrepancy", constants.discrepancy},
              {"runs", constants.source.runs},
              {"file", constants.source.file},
              {"date", constants.source.date}}
             .dump(2) +
         "\n";
}

ClusterConstants parse_constants(std::string_view text, const std::string& source) {
  const JsonValue json = JsonDocument::parse(text, source);
  require_file_kind(json, kConstantsKey);
  static_cast<void>(json.at(kConstantsKey).integer(1, 1));
  json.allow_only(
      {kConstantsKey, "device", "constants", "covariance", "discrepancy", "runs", "file", "date"});
  ClusterConstants constants;
  constants.device = json.at("device").string();
  const JsonValue list = json.at("constants");
  for (const JsonValue& one : list.items()) constants.constants.push_back(constant_at(one));
  require_different(constants.constants, list);
  constants.covariance = covariance_at(json.at("covariance"), constants.constants.size());
  constants.discrepancy = json.at("discrepancy").number(0, 10);
  constants.source = {json.at("file").string(), json.at("runs").integer(0, kMostRuns),
                      json.at("date").string()};
  return constants;
}

}  // namespace pipesim
