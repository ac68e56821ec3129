#pragma once

#include <string>

#include "search/baselines/baselines.h"
#include "search/config_space.h"
#include "search/search_state.h"

namespace pipesim {

/// What a search is of. Two searches of the same go on from each other's states.
struct SearchSubject {
  const OperatorGraph& graph;
  const Topology& topology;
  const PlanOptions& options;
  const std::vector<Baseline>& baselines;  ///< they show whether durations are the same
  bool flexflow_moves = false;
};

/// A checkpoint: everything, to the last bit, as one JSON object.
std::string to_json(const SearchState& state, const SearchSubject& subject);

/// InputError `FILE: /place: …` when the text is no checkpoint, is damaged, or is one of something else.
SearchState parse_search_state(std::string_view text, const std::string& file, const SearchSubject& subject,
                               const ConfigSpace& space);

}  // namespace pipesim
