#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "search/search.h"
#include "sim/base/json_reader.h"
#include "sim/base/rng.h"

namespace pipesim {

// What files of all searches have. Readers throw InputError `FILE: /place: …`.

/// Times and counts of searches stay far below.
inline constexpr std::int64_t kMostInSearches = std::int64_t{1} << 62;

std::int64_t parse_count(const JsonValue& value);
/// So many integers from 0 to `most`.
std::vector<std::int64_t> parse_counts(const JsonValue& value, std::size_t size,
                                       std::int64_t most = kMostInSearches);

/// Where a stream of random numbers is: four words of 16 hexadecimal digits.
nlohmann::ordered_json json_of(const Rng& rng);
Rng parse_rng(const JsonValue& value);

nlohmann::ordered_json json_of(const std::vector<SearchImprovement>& history);
std::vector<SearchImprovement> parse_history(const JsonValue& value);

nlohmann::ordered_json json_of(const Evaluation& evaluation);
Evaluation parse_evaluation(const JsonValue& value);  ///< of an object that may have other members, too

/// Who asks for another seed or other chains than a checkpoint has would not get them; who does not ask gets
/// the checkpoint's. InputError when they differ.
void require_choice(const std::string& file, const std::string& option, std::uint64_t asked,
                    std::uint64_t found);

}  // namespace pipesim
