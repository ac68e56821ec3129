#pragma once

#include <functional>
#include <string>

#include "search/annealing/checkpoint_file.h"
#include "search/mcmc/mcmc.h"
#include "search/mcmc/search_state_json.h"

namespace pipesim {

/// Writes checkpoints of one search to a file, and reads them.
class SearchCheckpoints {
 public:
  /// Writes nothing when `file` is "".
  SearchCheckpoints(std::string file, double seconds_between, SearchSubject subject);

  /// For McmcOptions::keep; valid as long as this.
  [[nodiscard]] std::function<void(const SearchState&, bool last)> keeper();
  /// InputError when it is no checkpoint of this search.
  [[nodiscard]] SearchState load(const std::string& file, const CandidateSet& candidates,
                                 const std::vector<SearchStart>& starts) const;

 private:
  CheckpointFile file_;
  SearchSubject subject_;
};

}  // namespace pipesim
