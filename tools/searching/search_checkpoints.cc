#include "tools/searching/search_checkpoints.h"

#include <fmt/format.h>

#include "sim/base/errors.h"
#include "sim/base/files.h"

namespace pipesim {

SearchCheckpoints::SearchCheckpoints(std::string file, double seconds_between, SearchSubject subject)
    : file_(std::move(file)), between_(seconds_between), subject_(subject) {}

std::function<void(const SearchState&, bool)> SearchCheckpoints::keeper() {
  if (file_.empty()) return {};
  return [this](const SearchState& state, bool last) { keep(state, last); };
}

// At once the first time, so that there is one to go on from.
void SearchCheckpoints::keep(const SearchState& state, bool last) {
  const auto now = std::chrono::steady_clock::now();
  if (!last && now < next_) return;
  write_file(file_, to_json(state, subject_));
  next_ = now + std::chrono::duration_cast<std::chrono::steady_clock::duration>(between_);
}

SearchState SearchCheckpoints::load(const std::string& file, const CandidateSet& candidates,
                                    const std::vector<SearchStart>& starts) const {
  std::vector<Strategy> strategies;
  for (const SearchStart& s : starts) strategies.push_back(s.strategy);
  return parse_search_state(read_file(file), file, subject_, ConfigSpace(candidates, strategies));
}

}  // namespace pipesim
