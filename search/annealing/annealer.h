#pragma once

#include <cstdint>
#include <mutex>
#include <vector>

#include "search/annealing/annealing_state.h"
#include "search/search.h"
#include "search/stopwatch.h"
#include "search/worker_threads.h"

namespace pipesim {

/// Options of every annealer.
struct AnnealingOptions {
  SearchBudget budget;
  std::uint64_t seed = 1;
  int threads = 1;
};

/// The driver of simulated annealing. It runs slices of several chains side by side until the budget is
/// spent, and keeps time, progress and history. It stops when the progress callback says so or the thread's
/// deadline passes. A derived class says what chains are, how hot they are, and where they begin.
class Annealer {
 public:
  Annealer(const Annealer&) = delete;
  Annealer& operator=(const Annealer&) = delete;

 protected:
  /// Continues from `state`; a new search begins with the default state. `state` and `progress` must outlive
  /// this.
  Annealer(AnnealingState& state, const AnnealingOptions& options, const ProgressCallback& progress);
  virtual ~Annealer() = default;

  /// Runs slices until the budget is spent, the search is stopped, or many slices in a row propose nothing.
  /// If the search was stopped before its first slice, no state is kept.
  void run_slices();

  /// The size of the next slice, if the budget allows all of it: chains, and proposals per chain.
  struct Slice {
    std::int64_t chains = 0, proposals = 0;
  };
  [[nodiscard]] virtual Slice next_slice() const = 0;
  /// Prepares the next slice. False: there was no time left for that, and nothing has changed.
  virtual bool begin_slice() = 0;
  virtual void run_slice() = 0;
  /// Adds the results of the chains to the state, in the order of the chains.
  virtual void collect() = 0;
  /// Called after each complete slice.
  virtual void end_slice() = 0;
  /// Called between slices, and once with `last` set: then with the state after the last complete slice. A
  /// search with a larger budget continues from that state as if there had been no smaller budget.
  virtual void keep_state(bool last) = 0;

  /// The number of proposals of the n-th chain in the next slice. Their sum does not exceed the budget.
  [[nodiscard]] std::int64_t proposals_of(std::int64_t n) const;
  /// Like WorkerThreads::run, but stops the search when a chain has no time left.
  void run_chains(const std::vector<std::size_t>& chains, const WorkerThreads::Run& run);
  [[nodiscard]] WorkerThreads& threads() { return threads_; }

  /// Reports what a chain did since its last report, and the iteration time of its best plan that fits (0:
  /// none). False: stop. Any thread may call it.
  bool count(std::int64_t proposals, std::int64_t accepted, Nanoseconds best, int chain);
  /// Whether neither the progress callback nor the budget ends the search. Not called while chains run.
  bool wanted_still();
  [[nodiscard]] bool stopped();  ///< any thread may ask
  [[nodiscard]] double seconds() const { return time_.seconds(); }
  /// Adds a new best plan that fits to the history.
  void note_best(Nanoseconds best, int chain);

 private:
  [[nodiscard]] bool has_whole_slice() const;
  void keep(bool last);

  AnnealingState& state_;
  SearchBudget budget_;
  const ProgressCallback& progress_;
  Stopwatch time_;
  WorkerThreads threads_;
  std::mutex mutex_;  // for what follows
  SearchProgress shown_;
  bool stopped_ = false;
  bool kept_last_ = false;
};

}  // namespace pipesim
