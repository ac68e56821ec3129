#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "search/search.h"
#include "sim/base/json_reader.h"
#include "sim/base/rng.h"

namespace pipesim {

// Parts that the files of all searches have. Readers throw InputError `FILE: /place: …`.

/// Times and counts of searches stay far below.
inline constexpr std::int64_t kMostInSearches = std::int64_t{1} << 62;

std::int64_t parse_count(const JsonValue& value);
/// An array of exactly `size` integers from 0 to `most`.
std::vector<std::int64_t> parse_counts(const JsonValue& value, std::size_t size,
                                       std::int64_t most = kMostInSearches);

/// The state of a stream of random numbers: four words of 16 hexadecimal digits.
nlohmann::ordered_json json_of(const Rng& rng);
Rng parse_rng(const JsonValue& value);

nlohmann::ordered_json json_of(const std::vector<SearchImprovement>& history);
std::vector<SearchImprovement> parse_history(const JsonValue& value);

nlohmann::ordered_json json_of(const Evaluation& evaluation);
Evaluation parse_evaluation(const JsonValue& value);  ///< of an object that may have other members, too

/// InputError when the user asked for another value (a seed, or chains) than the checkpoint has. A value that
/// was not asked for is taken from the checkpoint.
void require_choice(const std::string& file, const std::string& option, std::uint64_t asked,
                    std::uint64_t found);

}  // namespace pipesim
