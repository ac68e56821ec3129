#include "search/annealing/annealing_json.h"

#include <nlohmann/json.hpp>

#include "search/search_json.h"

namespace pipesim {

nlohmann::ordered_json json_of(const AnnealingState& state) {
  return {{"seed", state.seed},
          {"proposals", state.proposals},
          {"accepted", state.accepted},
          {"seconds", state.seconds},
          {"overflow_price_ns", state.cost.overflow_price},
          {"history", json_of(state.history)}};
}

void read(const JsonValue& value, AnnealingState& state) {
  state.seed = static_cast<std::uint64_t>(value.at("seed").integer(0, INT64_MAX));
  state.proposals = parse_count(value.at("proposals"));
  state.accepted = parse_count(value.at("accepted"));
  state.seconds = value.at("seconds").number(0);
  state.cost.overflow_price = value.at("overflow_price_ns").number(0);
  state.history = parse_history(value.at("history"));
}

std::vector<JsonValue> chains_of(const JsonValue& value) {
  std::vector<JsonValue> chains = value.at("chains").items();
  if (chains.empty()) value.at("chains").fail("found no chain, at least one is needed");
  return chains;
}

}  // namespace pipesim
