#include "search/annealing/annealer.h"

#include <algorithm>

#include "sim/base/deadline.h"

namespace pipesim {
namespace {

constexpr std::int64_t kMostIdleSlices = 50;  // a space of one strategy has nothing to propose

}  // namespace

Annealer::Annealer(AnnealingState& state, const AnnealingOptions& options, const ProgressCallback& progress)
    : state_(state),
      budget_(options.budget),
      progress_(progress),
      time_(state.seconds),
      threads_(static_cast<std::size_t>(std::max(1, options.threads))),
      shown_{state.proposals, state.accepted} {}

void Annealer::run_slices() {
  kept_last_ = stopped_;  // what began with fewer starts is no search to go on with
  if (!state_.history.empty()) {
    shown_.best = state_.history.back().best;
    shown_.chain = state_.history.back().chain;
  }
  wanted_still();
  std::int64_t idle = 0;
  while (!stopped_ && !budget_.spent(state_.proposals, seconds()) && idle < kMostIdleSlices &&
         begin_slice()) {
    keep(!has_whole_slice());  // a larger budget must go on from before the first slice that this one cuts
    const std::int64_t before = state_.proposals;
    run_slice();
    if (stopped_) keep(true);  // nothing can go on from the middle of a slice, but what it found counts
    collect();
    if (!stopped_) end_slice();
    idle = state_.proposals == before ? idle + 1 : 0;
  }
  keep(true);
}

bool Annealer::has_whole_slice() const {
  const Slice slice = next_slice();
  return budget_.proposals == 0 || budget_.proposals - state_.proposals >= slice.chains * slice.proposals;
}

std::int64_t Annealer::proposals_of(std::int64_t n) const {
  const Slice slice = next_slice();
  const std::int64_t left = budget_.proposals - state_.proposals;
  return has_whole_slice() ? slice.proposals : left * (n + 1) / slice.chains - left * n / slice.chains;
}

void Annealer::run_chains(const std::vector<std::size_t>& chains, const WorkerThreads::Run& run) {
  threads_.run(chains, [&](std::size_t chain, std::size_t worker) {
    try {
      run(chain, worker);
    } catch (const OutOfTime&) {
      const std::scoped_lock lock(mutex_);
      stopped_ = true;
    }
  });
}

bool Annealer::count(std::int64_t proposals, std::int64_t accepted, Nanoseconds best, int chain) {
  const std::scoped_lock lock(mutex_);
  shown_.proposals += proposals;
  shown_.accepted += accepted;
  if (best > 0 && (shown_.best == 0 || best < shown_.best)) {
    shown_.best = best;
    shown_.chain = chain;
  }
  return wanted_still();
}

bool Annealer::wanted_still() {
  shown_.seconds = seconds();
  if ((progress_ && !progress_(shown_)) || budget_.out_of_seconds(shown_.seconds)) stopped_ = true;
  return !stopped_;
}

bool Annealer::stopped() {
  const std::scoped_lock lock(mutex_);
  return stopped_;
}

void Annealer::note_best(Nanoseconds best, int chain) {
  std::vector<SearchImprovement>& history = state_.history;
  if (!history.empty() && history.back().proposals == state_.proposals) history.pop_back();
  history.push_back({seconds(), state_.proposals, best, chain});
}

void Annealer::keep(bool last) {
  if (!kept_last_) keep_state(last);
  kept_last_ |= last;
}

}  // namespace pipesim
