#include "search/alpa/stage_costs_json.h"

#include <fmt/format.h>

#include <algorithm>

#include "sim/base/json_reader.h"

namespace pipesim {
namespace {

constexpr std::int64_t kMostStageLayers = 10'000, kMostOfStage = 1 << 20;

StageOption read_entry(const JsonValue& entry, const StageCosts& costs) {
  const std::vector<JsonValue> items = entry.items();
  constexpr std::size_t kNumbers = 6;
  if (items.size() != kNumbers) {
    entry.fail(
        fmt::format("found {} numbers, allowed: first layer, last layer, submesh, config, seconds, most "
                    "successors",
                    items.size()));
  }
  const auto index = [&](std::size_t i, std::int64_t lowest, std::int64_t count) {
    return static_cast<std::int32_t>(items[i].integer(lowest, count - 1));
  };
  StageOption option;
  option.first = index(0, 0, costs.problem.layers);
  option.last = index(1, option.first, costs.problem.layers);
  option.submesh = index(2, 0, static_cast<std::int64_t>(costs.submeshes.size()));
  option.config = index(3, 0, kMostOfStage);
  option.time = Seconds(items[4].number(0, 1e9));
  option.most_successors = std::min(items[5].integer(-1, INT64_MAX), kMostOfStage);
  const auto& [nodes, each] = costs.submeshes[static_cast<std::size_t>(option.submesh)];
  option.devices = nodes * each;
  return option;
}

}  // namespace

StageCosts read_stage_costs(std::string_view text, const std::string& source) {
  const JsonValue root = JsonDocument::parse(text, source);
  root.allow_only({"kind", "L", "D", "B", "submesh", "ncfg", "entries"});
  StageCosts costs;
  costs.problem.layers = static_cast<std::int32_t>(root.at("L").integer(1, kMostStageLayers));
  costs.problem.devices = root.at("D").integer(1, kMostOfStage);
  costs.problem.microbatches = root.at("B").integer(1, kMostOfStage);
  constexpr double kMostSums = 2e8;  // of the dynamic program
  const auto layers = static_cast<double>(costs.problem.layers),
             devices = static_cast<double>(costs.problem.devices);
  if (layers * std::min(layers, devices) * devices > kMostSums)
    root.fail(fmt::format("{} layers on {} devices are more than can be planned for", costs.problem.layers,
                          costs.problem.devices));
  for (const JsonValue& submesh : root.at("submesh").items()) {
    const std::vector<std::int64_t> numbers = submesh.integers(1, kMostOfStage);
    if (numbers.size() != 2) submesh.fail("allowed: [nodes, devices of each]");
    costs.submeshes.emplace_back(numbers[0], numbers[1]);
  }
  std::vector<bool> covered(static_cast<std::size_t>(costs.problem.layers), false);
  const JsonValue entries = root.at("entries");
  for (const JsonValue& entry : entries.items()) {
    const StageOption option = read_entry(entry, costs);
    for (std::int32_t l = option.first; l <= option.last; ++l) covered[static_cast<std::size_t>(l)] = true;
    if (option.most_successors >= 0) costs.problem.options.push_back(option);
  }
  for (std::size_t l = 0; l < covered.size(); ++l) {
    if (!covered[l]) entries.fail(fmt::format("no entry has layer {} of 0 to {}", l, covered.size() - 1));
  }
  return costs;
}

}  // namespace pipesim
