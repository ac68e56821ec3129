#include "search/search_json.h"

#include <fmt/format.h>

#include <charconv>
#include <nlohmann/json.hpp>

namespace pipesim {

std::int64_t parse_count(const JsonValue& value) { return value.integer(0, kMostInSearches); }

std::vector<std::int64_t> parse_counts(const JsonValue& value, std::size_t size, std::int64_t most) {
  std::vector<std::int64_t> numbers = value.integers(0, most);
  if (numbers.size() != size)
    value.fail(fmt::format("found {} numbers, {} are needed", numbers.size(), size));
  return numbers;
}

nlohmann::ordered_json json_of(const Rng& rng) {
  nlohmann::ordered_json words = nlohmann::ordered_json::array();
  for (const std::uint64_t word : rng.state()) words.push_back(fmt::format("{:016x}", word));
  return words;
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

nlohmann::ordered_json json_of(const std::vector<SearchImprovement>& history) {
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (const SearchImprovement& i : history) {
    list.push_back(
        {{"seconds", i.seconds}, {"proposals", i.proposals}, {"time_ns", i.best}, {"chain", i.chain}});
  }
  return list;
}

std::vector<SearchImprovement> parse_history(const JsonValue& value) {
  std::vector<SearchImprovement> history;
  for (const JsonValue& i : value.items()) {
    history.push_back({i.at("seconds").number(0), parse_count(i.at("proposals")),
                       parse_count(i.at("time_ns")), static_cast<int>(i.at("chain").integer(0, INT32_MAX))});
  }
  return history;
}

nlohmann::ordered_json json_of(const Evaluation& evaluation) {
  return {{"time_ns", evaluation.time}, {"overflow_bytes", evaluation.overflow.value}};
}

Evaluation parse_evaluation(const JsonValue& value) {
  return {parse_count(value.at("time_ns")), Bytes(parse_count(value.at("overflow_bytes")))};
}

void require_choice(const std::string& file, const std::string& option, std::uint64_t asked,
                    std::uint64_t found) {
  if (asked == found) return;
  throw InputError(fmt::format("{}: found {} {}, --{} says {}; leave it out to go on with the checkpoint's",
                               file, option, found, option, asked));
}

}  // namespace pipesim
