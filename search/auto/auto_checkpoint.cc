#include "search/auto/auto_checkpoint.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <set>

#include "search/joint/joint_json.h"
#include "search/search_json.h"
#include "sim/base/file_kind.h"
#include "sim/base/files.h"
#include "sim/base/json_reader.h"

namespace pipesim {
namespace {

using CheckpointJson = nlohmann::ordered_json;
constexpr int kAutoVersion = 3;

CheckpointJson json_of(const AutoEntry& entry) {
  const Contribution& c = entry.contribution;
  CheckpointJson json{{"algorithm", c.name}, {"part", entry.part}, {"seconds", c.seconds}, {"note", c.note}};
  if (c.devices_used > 0) json["devices_used"] = c.devices_used;
  if (c.evaluation) json["cost"] = json_of(*c.evaluation);
  if (entry.plan) json["plan"] = json_of(*entry.plan);
  return json;
}

}  // namespace

AutoCheckpoints::AutoCheckpoints(std::string file, double seconds_between, const SearchSubject& subject)
    : file_(std::move(file), seconds_between), subject_(subject) {}

void AutoCheckpoints::keep(const AutoState& state, bool last, const SplitSearchOf& splits) {
  if (!file_.due(last)) return;
  CheckpointJson json{{"pipesim_auto_search", kAutoVersion},
                      {"subject", json_of(subject_)},
                      {"seed", state.seed},
                      {"chains", state.chains},
                      {"done", CheckpointJson::array()}};
  for (const AutoEntry& entry : state.done) json["done"].push_back(json_of(entry));
  for (const auto& [microbatches, search] : state.mcmc) {
    json["mcmc"].push_back(
        {{"microbatches", microbatches}, {"state", json_of(search, splits(microbatches)->subject())}});
  }
  if (state.joint) json["joint"] = json_of(*state.joint);
  file_.write(json.dump() + "\n");
}

AutoState AutoCheckpoints::load(const std::string& file, const SplitSearchOf& splits,
                                const DividedGraphs& graphs) const {
  const JsonValue root = JsonDocument::parse(read_file(file), file);
  require_file_kind(root, kAutoSearchKey);
  if (!root.is_object() || !root.find("pipesim_auto_search"))
    root.fail("this is no checkpoint of a search with --algorithm auto");
  static_cast<void>(root.at("pipesim_auto_search").integer(kAutoVersion, kAutoVersion));
  require_subject(root.at("subject"), subject_);
  AutoState state;
  state.seed = static_cast<std::uint64_t>(root.at("seed").integer(0, INT64_MAX));
  constexpr std::int64_t kMostChains = 1024;
  state.chains = static_cast<std::size_t>(root.at("chains").integer(1, kMostChains));
  const Topology& topology = subject_.topology;
  for (const JsonValue& found : root.at("done").items()) {
    AutoEntry& entry = state.done.emplace_back();
    entry.contribution = {found.at("algorithm").string(), std::nullopt, found.at("seconds").number(0),
                          found.at("note").string(), 0};
    constexpr std::int64_t kMostParts = 100;
    entry.part = static_cast<std::int32_t>(found.at("part").integer(0, kMostParts));
    if (const auto used = found.find("devices_used"))
      entry.contribution.devices_used = used->integer(1, static_cast<std::int64_t>(topology.num_devices()));
    if (const auto cost = found.find("cost")) entry.contribution.evaluation = parse_evaluation(*cost);
    if (const auto plan = found.find("plan")) entry.plan = parse_joint_plan(*plan, graphs, topology);
    if (entry.plan.has_value() != entry.contribution.evaluation.has_value())
      found.fail("a plan needs a cost, and a cost a plan");
  }
  const auto searches = root.find("mcmc");
  for (const JsonValue& found : searches ? searches->items() : std::vector<JsonValue>()) {
    const JsonValue number = found.at("microbatches");
    const auto microbatches = static_cast<std::int32_t>(number.integer(1, kMostMicrobatches));
    const SplitSearch* search = splits(microbatches);
    if (search == nullptr) number.fail(fmt::format("the model can't have {} microbatches", microbatches));
    std::vector<Strategy> strategies;
    for (const SearchStart& s : search->starts) strategies.push_back(s.strategy);
    state.mcmc.emplace(microbatches, parse_search_state(found.at("state"), search->subject(),
                                                        ConfigSpace(search->candidates, strategies)));
  }
  if (const auto joint = root.find("joint")) {
    std::set<std::string> with_plan;  // parts of one search count once
    for (const AutoEntry& entry : state.done) {
      if (entry.plan && !is_joint(entry.contribution)) with_plan.insert(entry.contribution.name);
    }
    state.joint = parse_joint_state(*joint, graphs, topology, subject_.baselines.size() + with_plan.size());
  }
  return state;
}

}  // namespace pipesim
