#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <string>

#include "search/mcmc/mcmc.h"
#include "search/mcmc/search_state_json.h"

namespace pipesim {

/// Writes checkpoints of one search to a file, and reads them. A file is replaced as a whole: whenever the
/// program is killed, the last one loads.
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
  void keep(const SearchState& state, bool last);

  std::string file_;
  std::chrono::duration<double> between_;
  SearchSubject subject_;
  std::chrono::steady_clock::time_point next_;
};

}  // namespace pipesim
