#include "search/mcmc/search_state_json.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <optional>

#include "search/annealing/annealing_json.h"
#include "search/search_json.h"
#include "sim/base/file_kind.h"

namespace pipesim {
namespace {

using Json = nlohmann::ordered_json;
constexpr int kVersion = 3;

Json json_of(const ScoredConfigs& scored) {
  Json json{{"configs", scored.plan}};
  json.update(json_of(scored.evaluation));
  return json;
}

Json json_of(const ChainState& chain) {
  return {{"current", json_of(chain.current)},
          {"best", json_of(chain.best)},
          {"random", json_of(chain.rng)},
          {"proposals", chain.proposals},
          {"accepted", chain.accepted},
          {"lowest", chain.lowest},
          {"proposed_by_kind", chain.counts.proposed},
          {"accepted_by_kind", chain.counts.accepted}};
}

Json json_of(const Cycle& cycle) {
  return {{"grain", static_cast<int>(cycle.grain)},
          {"chains", cycle.chains},
          {"round", cycle.round},
          {"rounds", cycle.rounds},
          {"cost_before", cycle.cost_before},
          {"begun", cycle.begun}};
}

Json json_of(const GrainState& grain) {
  return {{"cycles", grain.cycles},
          {"effort", grain.effort},
          {"heat", grain.heat},
          {"rates", grain.rates.weight},
          {"proposed_by_kind", grain.counts.proposed},
          {"accepted_by_kind", grain.counts.accepted},
          {"best", json_of(grain.best)},
          {"last", grain.last}};
}

Json baselines_of(const SearchSubject& subject) {
  Json times = Json::object();
  for (const Baseline& b : subject.baselines)
    if (b.scored) times[b.name] = b.scored->evaluation.time;
  return times;
}

class Reader {
 public:
  explicit Reader(const ConfigSpace& space) : space_(space) {}

  [[nodiscard]] SearchState state(const JsonValue& root) const {
    SearchState state;
    read(root, state);
    state.rounds = parse_count(root.at("rounds"));
    state.rng = parse_rng(root.at("random"));
    for (const JsonValue& chain : chains_of(root)) state.chains.push_back(this->chain(chain));
    state.cycle = cycle(root.at("cycle"), state.chains.size());
    const std::vector<JsonValue> grains = root.at("grains").items();
    if (grains.size() != kGrains)
      root.at("grains").fail(fmt::format("found {} grains, {} are needed", grains.size(), kGrains));
    for (std::size_t i = 0; i < kGrains; ++i) state.grains[i] = grain(grains[i]);
    state.rung = rungs(root.at("rung"), state.chains.size());
    state.best = scored(root.at("best"), true);
    state.found_by = root.at("found_by").string();
    return state;
  }

 private:
  static MoveCounts counts(const JsonValue& value) {
    MoveCounts counts;
    std::ranges::copy(parse_counts(value.at("proposed_by_kind"), kMoveKinds), counts.proposed.begin());
    std::ranges::copy(parse_counts(value.at("accepted_by_kind"), kMoveKinds), counts.accepted.begin());
    return counts;
  }

  static std::vector<std::size_t> rungs(const JsonValue& value, std::size_t chains) {
    const std::vector<std::int64_t> numbers = value.integers(0, static_cast<std::int64_t>(chains) - 1);
    std::vector<std::size_t> sorted(numbers.begin(), numbers.end());
    std::ranges::sort(sorted);
    for (std::size_t i = 0; i < chains; ++i) {
      if (sorted.size() != chains || sorted[i] != i)
        value.fail(fmt::format("each of 0 to {} must stand here once", chains - 1));
    }
    return {numbers.begin(), numbers.end()};
  }

  [[nodiscard]] static Cycle cycle(const JsonValue& value, std::size_t chains) {
    Cycle cycle;
    cycle.grain = static_cast<Grain>(value.at("grain").integer(0, kGrains - 1));
    cycle.chains = static_cast<std::size_t>(value.at("chains").integer(0, static_cast<std::int64_t>(chains)));
    cycle.rounds = parse_count(value.at("rounds"));
    cycle.round = value.at("round").integer(0, cycle.rounds);
    cycle.cost_before = value.at("cost_before").number(0);
    for (const JsonValue& cost : value.at("begun").items()) cycle.begun.push_back(cost.number(0));
    if (cycle.begun.size() != cycle.chains)
      value.at("begun").fail(fmt::format("found {} costs of {} chains", cycle.begun.size(), cycle.chains));
    return cycle;
  }

  [[nodiscard]] GrainState grain(const JsonValue& value) const {
    GrainState grain;
    grain.cycles = parse_count(value.at("cycles"));
    grain.effort = value.at("effort").number(0);
    grain.heat = value.at("heat").number(0);
    const std::vector<std::int64_t> rates = parse_counts(value.at("rates"), kMoveKinds, UINT32_MAX);
    std::ranges::transform(rates, grain.rates.weight.begin(),
                           [](std::int64_t rate) { return static_cast<std::uint32_t>(rate); });
    grain.counts = counts(value);
    grain.best = scored(value.at("best"), true);
    for (const JsonValue& list : value.at("last").items()) grain.last.push_back(configs(list, false));
    return grain;
  }

  [[nodiscard]] ScoredConfigs scored(const JsonValue& value, bool may_be_empty) const {
    return {configs(value.at("configs"), may_be_empty), parse_evaluation(value)};
  }

  [[nodiscard]] std::vector<std::size_t> configs(const JsonValue& list, bool may_be_empty) const {
    const std::vector<JsonValue> items = list.items();
    std::vector<std::size_t> configs;
    if (items.empty() && may_be_empty) return configs;
    if (items.size() != space_.num_operators())
      list.fail(
          fmt::format("found {} configs, the model has {} operators", items.size(), space_.num_operators()));
    for (std::size_t i = 0; i < items.size(); ++i) {
      const auto most = static_cast<std::int64_t>(space_.size(OperatorId(i))) - 1;
      configs.push_back(static_cast<std::size_t>(items[i].integer(0, most)));
    }
    return configs;
  }

  [[nodiscard]] ChainState chain(const JsonValue& value) const {
    ChainState chain;
    chain.current = scored(value.at("current"), false);
    chain.best = scored(value.at("best"), true);
    chain.rng = parse_rng(value.at("random"));
    chain.proposals = parse_count(value.at("proposals"));
    chain.accepted = parse_count(value.at("accepted"));
    chain.lowest = value.at("lowest").number(0);
    chain.counts = counts(value);
    return chain;
  }

  const ConfigSpace& space_;
};

void require_same(const JsonValue& found, const Json& wanted) {
  for (const auto& [key, value] : wanted.items()) {
    const std::optional<JsonValue> member = found.find(key);
    if (!member)
      found.fail(fmt::format("the checkpoint is of another search: found no \"{}\", this one has it", key));
    if (value.is_object()) {
      require_same(*member, value);
    } else if (Json::parse(member->text()) != value) {
      member->fail(fmt::format("the checkpoint is of another search: found {}, this one has {}",
                               member->text(), value.dump()));
    }
  }
}

}  // namespace

Json json_of(const SearchSubject& subject) {
  Json json{{"model", subject.graph.fingerprint()},
            {"topology", subject.topology.fingerprint()},
            {"optimizer", subject.options.optimizer.str()},
            {"gradient_type", name_of(subject.options.gradient_type)},
            {"gradient_piece_bytes", subject.options.gradient_piece.value},
            {"microbatches", subject.options.microbatches},
            {"moves", subject.flexflow_moves ? "flexflow" : "all"},
            {"baselines_ns", baselines_of(subject)}};
  if (const std::optional<Pipeline>& pipeline = subject.options.pipeline) {
    json["pipeline"] = {{"schedule", pipeline->schedule}, {"stage_of", pipeline->stage_of}};
    if (pipeline->messages) json["pipeline"]["messages"] = name_of(*pipeline->messages);
  }
  if (subject.options.recompute.kind != Recompute::Kind::None)
    json["recompute"] =
        recompute_segments(subject.graph, subject.options.recompute, subject.options.pipeline);
  write_policies(subject.options, json);
  if (subject.options.imbalance.any()) json["imbalance"] = subject.options.imbalance.str();
  if (const MemoryMargin& margin = subject.topology.memory_margin(); !margin.is_none())
    json["memory_margin"] = margin.str();
  return json;
}

Json json_of(const SearchState& state, const SearchSubject& subject) {
  Json json{{"pipesim_search", kVersion}, {"subject", json_of(subject)}};
  json.update(json_of(state));
  json.update({{"rounds", state.rounds},
               {"random", json_of(state.rng)},
               {"cycle", json_of(state.cycle)},
               {"grains", Json::array()},
               {"rung", state.rung},
               {"best", json_of(state.best)},
               {"found_by", state.found_by},
               {"chains", Json::array()}});
  for (const GrainState& grain : state.grains) json["grains"].push_back(json_of(grain));
  for (const ChainState& chain : state.chains) json["chains"].push_back(json_of(chain));
  return json;
}

void require_subject(const JsonValue& found, const SearchSubject& subject) {
  const Json wanted = json_of(subject);
  require_same(found, wanted);
  for (const char* key : {"pipeline", "recompute", "memory_margin"}) {
    const auto member = found.find(key);
    if (!member || wanted.contains(key)) continue;
    member->fail(
        fmt::format("the checkpoint is of another search: found {}, this one has none", member->text()));
  }
}

SearchState parse_search_state(std::string_view text, const std::string& file, const SearchSubject& subject,
                               const ConfigSpace& space) {
  return parse_search_state(JsonDocument::parse(text, file), subject, space);
}

SearchState parse_search_state(const JsonValue& root, const SearchSubject& subject,
                               const ConfigSpace& space) {
  require_file_kind(root, kSearchKey);
  if (!root.is_object() || !root.find("pipesim_search")) root.fail("this is no checkpoint of a search");
  static_cast<void>(root.at("pipesim_search").integer(kVersion, kVersion));
  require_subject(root.at("subject"), subject);
  return Reader(space).state(root);
}

}  // namespace pipesim
