#include "search/mcmc/search_checkpoints.h"

#include <nlohmann/json.hpp>

#include "sim/base/files.h"

namespace pipesim {

SearchCheckpoints::SearchCheckpoints(std::string file, double seconds_between, SearchSubject subject)
    : file_(std::move(file), seconds_between), subject_(subject) {}

std::function<void(const SearchState&, bool)> SearchCheckpoints::keeper() {
  if (!file_.wanted()) return {};
  return [this](const SearchState& state, bool last) {
    if (file_.due(last)) file_.write(json_of(state, subject_).dump() + "\n");
  };
}

SearchState SearchCheckpoints::load(const std::string& file, const CandidateSet& candidates,
                                    const std::vector<SearchStart>& starts) const {
  std::vector<Strategy> strategies;
  for (const SearchStart& s : starts) strategies.push_back(s.strategy);
  return parse_search_state(read_file(file), file, subject_, ConfigSpace(candidates, strategies));
}

}  // namespace pipesim
