#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "search/auto/auto.h"
#include "search/auto/auto_checkpoint.h"
#include "search/auto/contributions.h"
#include "search/auto/whole_progress.h"
#include "search/joint/joint_search.h"
#include "search/stopwatch.h"
#include "sim/base/deadline.h"

namespace pipesim {

/// Runs algorithms for one request, one after the other, each in a part of the time that there is, and has
/// the plan of each. Their results are in checkpoints, so that none is run again by a search that goes on.
class Contest {
 public:
  /// `request` must outlive it.
  explicit Contest(const PlanRequest& request);

  [[nodiscard]] const PlanRequest& request() const { return request_; }
  [[nodiscard]] const ChainSettings& chains() const { return request_.settings.chains; }
  [[nodiscard]] JointEvaluator& evaluator() { return evaluator_; }
  [[nodiscard]] const CandidateSet& candidates() const { return candidates_; }
  /// Returns the candidates of the plan's model, whose experts take tokens in groups.
  const CandidateSet& candidates_of(const JointPlan& plan);
  [[nodiscard]] const Contributions& found() const { return found_; }
  /// The baselines that were scored.
  [[nodiscard]] const std::vector<Baseline>& baselines() const { return baselines_; }

  /// Returns when all algorithms must end.
  [[nodiscard]] const Deadline& until() const { return until_; }
  /// Returns the seconds that are left for a part which ends when this share of the time is over; infinity
  /// where time is not limited.
  [[nodiscard]] double left_until(double share) const;

  /// What an algorithm found.
  struct Found {
    JointPlan plan;
    std::optional<Evaluation> evaluation = std::nullopt;  ///< where it is known
    bool as_asked = true;  ///< recomputation and sharding are those of the request
  };
  /// The turn of an algorithm, which may refuse (InputError, UsageError) and writes a note on what it did.
  using Turn = std::function<Found(std::string& note)>;
  /// A part of a search whose result is not kept, because a larger budget goes on with it.
  static constexpr std::int32_t kLastPart = 100;
  /// Runs an algorithm for so many seconds at most, unless the checkpoint has what it found. A search that
  /// goes on later is run in parts, numbered from 0. False: it had too little time.
  bool ask(const std::string& name, double seconds, const Turn& plan, std::int32_t part = 0);
  /// Runs a baseline for so many seconds at most. Checkpoints are of the same search if its time is the same.
  void ask_baseline(const std::string& name, double seconds);
  /// The result of an algorithm, or of its part; nullptr when it was not asked yet or had too little time.
  [[nodiscard]] const AutoEntry* entry(const std::string& name, std::int32_t part) const;
  /// The name of an algorithm in so many microbatches: "mcmc", or "mcmc, 8 microbatches" if others were asked
  /// for.
  [[nodiscard]] std::string name_with(std::string_view algorithm, std::int32_t microbatches) const;
  /// Reports the progress of a search as that of the whole.
  [[nodiscard]] ProgressCallback progress_of(const std::string& search) { return progress_.of(search); }

  /// Takes results from the checkpoint of the options, if there is one, and writes the first. After all
  /// baselines.
  void resume();
  [[nodiscard]] AutoState& state() { return state_; }
  /// Called by a search with each state from which it can go on, and with its last: stores the state where it
  /// is needed, and writes a checkpoint where one is wanted.
  template <class Store>
  void keep_state(bool last, const Store& store) {
    if (!checkpoints_.wanted() && !last) return;
    store();
    if (checkpoints_.wanted()) keep(last);
  }
  /// The search over splits in so many microbatches; nullptr when the model can't have them.
  SplitSearch* splits(std::int32_t microbatches);

  /// Tells the observer that the search is over.
  void finish();

 private:
  AutoEntry run(const std::string& name, double seconds, const Turn& plan);
  void keep(bool last);
  [[nodiscard]] AutoCheckpoints::SplitSearchOf split_searches();

  const PlanRequest& request_;
  SearchObserver& observer_;  // from the first algorithm on: an interruption loses nothing
  Stopwatch time_;
  Deadline until_;
  double seconds_;  // until then, at the beginning
  std::vector<Baseline> baselines_;
  std::vector<SearchStart> starts_;  // of searches over splits
  SearchSubject subject_;
  AutoCheckpoints checkpoints_;
  CandidateSet candidates_;
  JointEvaluator evaluator_;
  std::map<std::int64_t, CandidateSet> with_groups_;  // by groups of tokens
  AutoState state_;
  std::map<std::int32_t, std::unique_ptr<SplitSearch>> splits_;  // by microbatches
  Contributions found_;
  WholeProgress progress_;
};

}  // namespace pipesim
