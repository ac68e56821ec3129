#pragma once

#include <cstdint>
#include <mutex>
#include <vector>

#include "search/annealing/annealing_state.h"
#include "search/annealing/chain_threads.h"
#include "search/search.h"
#include "search/stopwatch.h"

namespace pipesim {

/// What every annealer is told.
struct AnnealingOptions {
  SearchBudget budget;
  std::uint64_t seed = 1;
  int threads = 1;
};

/// Drives chains of simulated annealing that run side by side, a slice of each after the other: it keeps the
/// budget, the time, progress and history, and stops where it is told to or the thread's deadline passes.
/// What chains are, how hot, and where they begin is left to who derives from it.
class Annealer {
 public:
  Annealer(const Annealer&) = delete;
  Annealer& operator=(const Annealer&) = delete;

 protected:
  /// Goes on from `state`, which outlives it, as `progress` does; that of a new search is the default one.
  Annealer(AnnealingState& state, const AnnealingOptions& options, const ProgressCallback& progress);
  virtual ~Annealer() = default;

  /// Runs slices until the budget is spent, it is stopped, or many slices have proposed nothing. A search
  /// that was stopped before, while it was begun, keeps no state.
  void run_slices();

  /// The next slice as it is where the budget allows it: so many chains, and so many proposals of each.
  struct Slice {
    std::int64_t chains = 0, proposals = 0;
  };
  [[nodiscard]] virtual Slice next_slice() const = 0;
  /// False: there was no time for it, and nothing has changed.
  virtual bool begin_slice() = 0;
  virtual void run_slice() = 0;
  /// Takes what the chains found into the state, in their order.
  virtual void collect() = 0;
  /// After a whole slice.
  virtual void end_slice() = 0;
  /// Called between slices, and once with `last`: with the state after the last whole slice, from which a
  /// larger budget goes on as if there had been no smaller one.
  virtual void keep_state(bool last) = 0;

  /// Proposals of the n-th chain in the next slice: together no more than the budget has left.
  [[nodiscard]] std::int64_t proposals_of(std::int64_t n) const;
  /// As ChainThreads::run; where a chain has no time left, the search is stopped.
  void run_chains(const std::vector<std::size_t>& chains, const ChainThreads::Run& run);
  [[nodiscard]] ChainThreads& threads() { return threads_; }

  /// Called by all threads, with what a chain did since it last called, and the time of its best that fits
  /// (0: none). False: stop.
  bool count(std::int64_t proposals, std::int64_t accepted, Nanoseconds best, int chain);
  /// Who runs the search and its budget want more of it. Not called while chains run.
  bool wanted_still();
  [[nodiscard]] bool stopped();  ///< for all threads
  [[nodiscard]] double seconds() const { return time_.seconds(); }
  /// A new best that fits.
  void note_best(Nanoseconds best, int chain);

 private:
  [[nodiscard]] bool has_whole_slice() const;
  void keep(bool last);

  AnnealingState& state_;
  SearchBudget budget_;
  const ProgressCallback& progress_;
  Stopwatch time_;
  ChainThreads threads_;
  std::mutex mutex_;  // for what follows
  SearchProgress shown_;
  bool stopped_ = false;
  bool kept_last_ = false;
};

}  // namespace pipesim
