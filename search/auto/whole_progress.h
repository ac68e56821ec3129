#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <string>

#include "search/auto/contributions.h"
#include "search/search.h"
#include "search/stopwatch.h"

namespace pipesim {

/// Reports the progress of several searches, one after the other, as that of a single one: seconds since
/// construction, proposals of all searches, and the best plan that fits of all searches and of `found`, which
/// must outlive it.
class WholeProgress {
 public:
  WholeProgress(ProgressCallback tell, const Contributions& found) : tell_(std::move(tell)), found_(found) {}

  /// The callback for one search, whose progress counts from its own beginning. This must outlive it.
  ProgressCallback of(const std::string& search) {
    return [this, search](SearchProgress progress) {
      proposals_[search] = progress.proposals;
      progress.proposals = 0;
      for (const auto& [name, proposals] : proposals_) progress.proposals += proposals;
      progress.seconds = time_.seconds();
      const Scored<JointPlan>* best = found_.best();
      if (best != nullptr && best->evaluation.feasible()) {
        const Nanoseconds time = best->evaluation.time;
        progress.best = progress.best == 0 ? time : std::min(progress.best, time);
      }
      return tell_(progress);
    };
  }

 private:
  ProgressCallback tell_;
  const Contributions& found_;
  Stopwatch time_;
  std::map<std::string, std::int64_t> proposals_;  // so far, by search
};

}  // namespace pipesim
