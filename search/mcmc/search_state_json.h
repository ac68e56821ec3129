#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "search/baselines/baselines.h"
#include "search/config_space.h"
#include "search/mcmc/search_state.h"
#include "sim/base/json_reader.h"

namespace pipesim {

/// The subject of a search. Searches with equal subjects can go on from each other's states.
struct SearchSubject {
  const OperatorGraph& graph;
  const Topology& topology;
  const PlanOptions& options;
  const std::vector<Baseline>& baselines;  ///< they show whether durations are the same
  bool flexflow_moves = false;
};

/// What must be as it was for a search to go on, as a JSON object. require_subject() throws InputError when
/// it is not.
nlohmann::ordered_json json_of(const SearchSubject& subject);
void require_subject(const JsonValue& found, const SearchSubject& subject);

/// A checkpoint: everything, to the last bit, as one JSON object.
nlohmann::ordered_json json_of(const SearchState& state, const SearchSubject& subject);

/// InputError `FILE: /place: …` when the text is no checkpoint, is damaged, or is one of something else.
SearchState parse_search_state(std::string_view text, const std::string& file, const SearchSubject& subject,
                               const ConfigSpace& space);
/// Reads the same from a member of another file.
SearchState parse_search_state(const JsonValue& root, const SearchSubject& subject, const ConfigSpace& space);

}  // namespace pipesim
