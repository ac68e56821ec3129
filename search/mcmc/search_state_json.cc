#include "search/mcmc/search_state_json.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <optional>

#include "search/search_json.h"
#include "sim/base/file_kind.h"

namespace pipesim {
namespace {

using Json = nlohmann::ordered_json;
constexpr int kVersion = 3;

Json json_of(const ScoredState& scored) {
  return {{"configs", scored.configs},
          {"time_ns", scored.evaluation.time},
          {"overflow_bytes", scored.evaluation.overflow.value}};
}

Json json_of(const ChainState& chain) {
  return {{"current", json_of(chain.current)},
          {"best", json_of(chain.best)},
          {"random", Json::parse(to_json(chain.rng))},
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

// The members that must be as they were.
Json subject_of(const SearchSubject& subject) {
  Json json{{"model", subject.graph.fingerprint()},
            {"topology", subject.topology.fingerprint()},
            {"optimizer", name_of(subject.options.optimizer)},
            {"gradient_type", name_of(subject.options.gradient_type)},
            {"gradient_piece_bytes", subject.options.gradient_piece.value},
            {"microbatches", subject.options.microbatches},
            {"moves", subject.flexflow_moves ? "flexflow" : "all"},
            {"baselines_ns", baselines_of(subject)}};
  if (const std::optional<Pipeline>& pipeline = subject.options.pipeline)
    json["pipeline"] = {{"schedule", pipeline->schedule}, {"stage_of", pipeline->stage_of}};
  if (subject.options.recompute.kind != Recompute::Kind::None)
    json["recompute"] =
        recompute_segments(subject.graph, subject.options.recompute, subject.options.pipeline);
  if (const MemoryMargin& margin = subject.topology.memory_margin(); !margin.is_none())
    json["memory_margin"] = margin.str();
  return json;
}

class Reader {
 public:
  explicit Reader(const ConfigSpace& space) : space_(space) {}

  [[nodiscard]] SearchState state(const JsonValue& root) const {
    SearchState state;
    state.seed = static_cast<std::uint64_t>(root.at("seed").integer(0, INT64_MAX));
    state.rounds = count(root.at("rounds"));
    state.proposals = count(root.at("proposals"));
    state.accepted = count(root.at("accepted"));
    state.seconds = root.at("seconds").number(0);
    state.rng = parse_rng(root.at("random"));
    state.cost.overflow_price = root.at("overflow_price_ns").number(0);
    for (const JsonValue& chain : root.at("chains").items()) state.chains.push_back(this->chain(chain));
    if (state.chains.empty()) root.at("chains").fail("found no chain, at least one is needed");
    state.cycle = cycle(root.at("cycle"), state.chains.size());
    const std::vector<JsonValue> grains = root.at("grains").items();
    if (grains.size() != kGrains)
      root.at("grains").fail(fmt::format("found {} grains, {} are needed", grains.size(), kGrains));
    for (std::size_t i = 0; i < kGrains; ++i) state.grains[i] = grain(grains[i]);
    state.rung = rungs(root.at("rung"), state.chains.size());
    state.best = scored(root.at("best"), true);
    state.found_by = root.at("found_by").string();
    state.history = parse_history(root.at("history"));
    return state;
  }

 private:
  static std::int64_t count(const JsonValue& value) { return value.integer(0, kMostInSearches); }

  template <class Array>
  static void read(const JsonValue& value, Array& out, std::int64_t most) {
    const std::vector<std::int64_t> numbers = value.integers(0, most);
    if (numbers.size() != out.size())
      value.fail(fmt::format("found {} numbers, {} are needed", numbers.size(), out.size()));
    for (std::size_t i = 0; i < out.size(); ++i) out[i] = static_cast<typename Array::value_type>(numbers[i]);
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
    cycle.rounds = count(value.at("rounds"));
    cycle.round = value.at("round").integer(0, cycle.rounds);
    cycle.cost_before = value.at("cost_before").number(0);
    for (const JsonValue& cost : value.at("begun").items()) cycle.begun.push_back(cost.number(0));
    if (cycle.begun.size() != cycle.chains)
      value.at("begun").fail(fmt::format("found {} costs of {} chains", cycle.begun.size(), cycle.chains));
    return cycle;
  }

  [[nodiscard]] GrainState grain(const JsonValue& value) const {
    GrainState grain;
    grain.cycles = count(value.at("cycles"));
    grain.effort = value.at("effort").number(0);
    grain.heat = value.at("heat").number(0);
    read(value.at("rates"), grain.rates.weight, std::int64_t{UINT32_MAX});
    read(value.at("proposed_by_kind"), grain.counts.proposed, kMostInSearches);
    read(value.at("accepted_by_kind"), grain.counts.accepted, kMostInSearches);
    grain.best = scored(value.at("best"), true);
    for (const JsonValue& list : value.at("last").items()) grain.last.push_back(configs(list, false));
    return grain;
  }

  [[nodiscard]] ScoredState scored(const JsonValue& value, bool may_be_empty) const {
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
    chain.proposals = count(value.at("proposals"));
    chain.accepted = count(value.at("accepted"));
    chain.lowest = value.at("lowest").number(0);
    read(value.at("proposed_by_kind"), chain.counts.proposed, kMostInSearches);
    read(value.at("accepted_by_kind"), chain.counts.accepted, kMostInSearches);
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

std::string to_json(const SearchState& state, const SearchSubject& subject) {
  Json json = {{"pipesim_search", kVersion},
               {"subject", subject_of(subject)},
               {"seed", state.seed},
               {"rounds", state.rounds},
               {"proposals", state.proposals},
               {"accepted", state.accepted},
               {"seconds", state.seconds},
               {"random", Json::parse(to_json(state.rng))},
               {"overflow_price_ns", state.cost.overflow_price},
               {"cycle", json_of(state.cycle)},
               {"grains", Json::array()},
               {"rung", state.rung},
               {"best", json_of(state.best)},
               {"found_by", state.found_by},
               {"history", Json::parse(to_json(state.history))},
               {"chains", Json::array()}};
  for (const GrainState& grain : state.grains) json["grains"].push_back(json_of(grain));
  for (const ChainState& chain : state.chains) json["chains"].push_back(json_of(chain));
  return json.dump() + "\n";
}

std::string subject_json(const SearchSubject& subject) { return subject_of(subject).dump(); }

void require_subject(const JsonValue& found, const SearchSubject& subject) {
  const Json wanted = subject_of(subject);
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
