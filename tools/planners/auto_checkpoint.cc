#include "tools/planners/auto_checkpoint.h"

#include <nlohmann/json.hpp>

#include "search/joint/joint_json.h"
#include "search/search_json.h"
#include "sim/base/files.h"
#include "sim/base/json_reader.h"

namespace pipesim {
namespace {

using CheckpointJson = nlohmann::ordered_json;
constexpr int kAutoVersion = 1;

CheckpointJson json_of(const AutoEntry& entry) {
  const Contribution& c = entry.contribution;
  CheckpointJson json{{"algorithm", c.name}, {"seconds", c.seconds}, {"note", c.note}};
  if (c.evaluation) json["cost"] = CheckpointJson::parse(to_json(*c.evaluation));
  if (entry.plan) json["plan"] = CheckpointJson::parse(to_json(*entry.plan));
  return json;
}

}  // namespace

AutoCheckpoints::AutoCheckpoints(std::string file, double seconds_between, const SearchSubject& subject)
    : file_(std::move(file)), between_(seconds_between), subject_(subject) {}

void AutoCheckpoints::keep(const AutoState& state, bool last) {
  const auto now = std::chrono::steady_clock::now();
  if (!wanted() || (!last && now < next_)) return;
  CheckpointJson json{{"pipesim_auto_search", kAutoVersion},
                      {"subject", CheckpointJson::parse(subject_json(subject_))},
                      {"seed", state.seed},
                      {"chains", state.chains},
                      {"done", CheckpointJson::array()}};
  for (const AutoEntry& entry : state.done) json["done"].push_back(json_of(entry));
  if (state.mcmc) json["mcmc"] = CheckpointJson::parse(to_json(*state.mcmc, subject_));
  if (state.joint) json["joint"] = CheckpointJson::parse(to_json(*state.joint));
  write_file(file_, json.dump() + "\n");
  next_ = now + std::chrono::duration_cast<std::chrono::steady_clock::duration>(between_);
}

AutoState AutoCheckpoints::load(const std::string& file, const CandidateSet& candidates,
                                const std::vector<SearchStart>& starts) const {
  const JsonValue root = JsonDocument::parse(read_file(file), file);
  if (!root.is_object() || !root.find("pipesim_auto_search"))
    root.fail("this is no checkpoint of a search with --algorithm auto");
  static_cast<void>(root.at("pipesim_auto_search").integer(kAutoVersion, kAutoVersion));
  require_subject(root.at("subject"), subject_);
  AutoState state;
  state.seed = static_cast<std::uint64_t>(root.at("seed").integer(0, INT64_MAX));
  constexpr std::int64_t kMostChains = 1024;
  state.chains = static_cast<std::size_t>(root.at("chains").integer(1, kMostChains));
  const OperatorGraph& graph = subject_.graph;
  const Topology& topology = subject_.topology;
  for (const JsonValue& found : root.at("done").items()) {
    AutoEntry& entry = state.done.emplace_back();
    entry.contribution = {found.at("algorithm").string(), std::nullopt, found.at("seconds").number(0),
                          found.at("note").string()};
    if (const auto cost = found.find("cost")) entry.contribution.evaluation = parse_evaluation(*cost);
    if (const auto plan = found.find("plan")) entry.plan = parse_joint_plan(*plan, graph, topology);
    if (entry.plan.has_value() != entry.contribution.evaluation.has_value())
      found.fail("a plan needs a cost, and a cost a plan");
  }
  if (const auto mcmc = root.find("mcmc")) {
    std::vector<Strategy> strategies;
    for (const SearchStart& s : starts) strategies.push_back(s.strategy);
    state.mcmc = parse_search_state(*mcmc, subject_, ConfigSpace(candidates, strategies));
  }
  if (const auto joint = root.find("joint")) {
    std::size_t plans = subject_.baselines.size();
    for (const AutoEntry& entry : state.done) plans += entry.plan ? 1 : 0;
    state.joint = parse_joint_state(*joint, graph, topology, plans);
  }
  return state;
}

}  // namespace pipesim
