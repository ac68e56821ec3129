#include "search/search_json.h"

#include <fmt/format.h>

#include <charconv>
#include <nlohmann/json.hpp>

namespace pipesim {
namespace {

std::int64_t search_count(const JsonValue& value) { return value.integer(0, kMostInSearches); }

}  // namespace

std::string to_json(const Rng& rng) {
  nlohmann::ordered_json words = nlohmann::ordered_json::array();
  for (const std::uint64_t word : rng.state()) words.push_back(fmt::format("{:016x}", word));
  return words.dump();
}

Rng parse_rng(const JsonValue& value) {
  const std::vector<JsonValue> words = value.items();
  Rng::State state{};
  if (words.size() != state.size())
    value.fail(fmt::format("found {} words, {} are needed", words.size(), state.size()));
  for (std::size_t i = 0; i < state.size(); ++i) {
    const std::string text = words[i].string();
    const char* end = text.data() + text.size();
    const auto [stop, error] = std::from_chars(text.data(), end, state[i], 16);
    if (error != std::errc() || stop != end)
      words[i].fail(fmt::format("found \"{}\", 16 hexadecimal digits are needed", text));
  }
  return Rng(state);
}

std::string to_json(const std::vector<SearchImprovement>& history) {
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (const SearchImprovement& i : history) {
    list.push_back(
        {{"seconds", i.seconds}, {"proposals", i.proposals}, {"time_ns", i.best}, {"chain", i.chain}});
  }
  return list.dump();
}

std::vector<SearchImprovement> parse_history(const JsonValue& value) {
  std::vector<SearchImprovement> history;
  for (const JsonValue& i : value.items()) {
    history.push_back({i.at("seconds").number(0), search_count(i.at("proposals")),
                       search_count(i.at("time_ns")), static_cast<int>(i.at("chain").integer(0, INT32_MAX))});
  }
  return history;
}

std::string to_json(const Evaluation& evaluation) {
  return nlohmann::ordered_json{{"time_ns", evaluation.time}, {"overflow_bytes", evaluation.overflow.value}}
      .dump();
}

Evaluation parse_evaluation(const JsonValue& value) {
  return {search_count(value.at("time_ns")), Bytes(search_count(value.at("overflow_bytes")))};
}

void require_choice(const std::string& file, const std::string& option, std::uint64_t asked,
                    std::uint64_t found) {
  if (asked == found) return;
  throw InputError(fmt::format("{}: found {} {}, --{} says {}; leave it out to go on with the checkpoint's",
                               file, option, found, option, asked));
}

}  // namespace pipesim
