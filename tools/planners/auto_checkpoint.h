#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "search/joint/joint_state.h"
#include "search/mcmc.h"
#include "search/search_state_json.h"
#include "tools/planners/planner.h"

namespace pipesim {

/// What an algorithm that auto has asked found.
struct AutoEntry {
  Contribution contribution;
  std::optional<JointPlan> plan;  ///< where it has one
};

/// All that auto goes on from.
struct AutoState {
  std::uint64_t seed = 1;
  std::size_t chains = 8;
  std::vector<AutoEntry> done;      ///< but baselines
  std::optional<SearchState> mcmc;  ///< while it runs
  std::optional<JointState> joint;  ///< while it runs
};

/// The checkpoints of one run of auto. A file is replaced as a whole: whenever the program is killed, the
/// last one loads.
class AutoCheckpoints {
 public:
  /// Writes nothing when `file` is "". `subject` must outlive it.
  AutoCheckpoints(std::string file, double seconds_between, const SearchSubject& subject);

  [[nodiscard]] bool wanted() const { return !file_.empty(); }
  /// Writes where it is time to, at once the first time, and always when `last`.
  void keep(const AutoState& state, bool last);
  /// InputError when it is no checkpoint of this search.
  [[nodiscard]] AutoState load(const std::string& file, const CandidateSet& candidates,
                               const std::vector<SearchStart>& starts) const;

 private:
  std::string file_;
  std::chrono::duration<double> between_;
  const SearchSubject& subject_;
  std::chrono::steady_clock::time_point next_;
};

}  // namespace pipesim
