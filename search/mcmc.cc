#include "search/mcmc.h"

#include <tbb/enumerable_thread_specific.h>
#include <tbb/parallel_for.h>
#include <tbb/task_arena.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <memory>
#include <mutex>

#include "search/chain.h"

namespace pipesim {
namespace {

using Clock = std::chrono::steady_clock;

constexpr double kFirstShare = 0.4;  // of the budget, for the chains from the starts
constexpr int kLaterRounds = 4;

// All operators split and placed like one of them, drawn at random, where they can be; the others anyhow.
std::vector<std::size_t> random_state(const ConfigSpace& space, const Moves& moves, Rng& rng) {
  const CandidateSet& candidates = space.candidates();
  const OperatorId leader(rng.below(space.num_operators()));
  const CandidateSet::Position p = candidates.position(leader, rng.below(candidates.size(leader)));
  std::vector<std::size_t> state;
  for (std::size_t i = 0; i < space.num_operators(); ++i) {
    const OperatorId op(i);
    const std::size_t drawn = rng.below(candidates.size(op));
    state.push_back(
        moves.styles().config(op, p.size, p.list, moves.styles().style(leader, p)).value_or(drawn));
  }
  return state;
}

// Runs rounds of chains and keeps the best.
class Rounds {
 public:
  Rounds(const OperatorGraph& graph, const CostModel& costs, const PlanOptions& plan_options,
         const ConfigSpace& space, const McmcOptions& options, const ProgressCallback& progress)
      : space_(space),
        moves_(space),
        options_(options),
        progress_(progress),
        rng_(options.seed),
        arena_(std::max(1, options.threads)),
        evaluators_([&graph, &costs, plan_options] {
          return std::make_unique<Evaluator>(graph, costs, plan_options);
        }) {}

  struct Start {
    std::string name;
    std::vector<std::size_t> state;
    double hottest;
  };

  // All starts share `share` of the whole budget. True if the best improved.
  bool run(const std::vector<Start>& starts, double share) {
    outcomes_.assign(starts.size(), {});
    const std::vector<ChainBudget> budgets = slices(share, starts.size());
    const std::uint64_t first_stream = streams_used_;
    streams_used_ += starts.size();
    arena_.execute([&] {
      tbb::parallel_for(std::size_t{0}, starts.size(), [&](std::size_t i) {
        McmcOptions options = options_;
        options.hottest = starts[i].hottest;
        Chain chain(space_, moves_, *evaluators_.local(), options);
        ChainOutcome outcome = chain.run(
            starts[i].state, budgets[i], rng_.split(first_stream + i),
            [this](auto proposals, auto accepted, auto best) { return note(proposals, accepted, best); });
        // Under the lock because ThreadSanitizer does not see oneTBB wait for its tasks.
        const std::scoped_lock lock(mutex_);
        outcomes_[i] = std::move(outcome);
      });
    });
    const std::scoped_lock lock(mutex_);
    bool improved = false;
    for (std::size_t i = 0; i < starts.size(); ++i) improved |= keep(outcomes_[i], starts[i].name);
    return improved;
  }

  // Whether chain i of the last round ended within 10% of the best of all.
  [[nodiscard]] bool came_close(std::size_t i) const {
    return !outcomes_[i].best.empty() && static_cast<double>(outcomes_[i].evaluation.time) <=
                                             1.1 * static_cast<double>(best_evaluation_.time);
  }
  [[nodiscard]] bool stopped() const { return stopped_; }
  [[nodiscard]] const Moves& moves() const { return moves_; }
  [[nodiscard]] const std::vector<std::size_t>& best_state() const { return best_; }

  SearchOutcome finish() {
    outcome_.seconds = seconds();
    if (!best_.empty()) outcome_.best = ScoredStrategy{space_.strategy(best_), best_evaluation_};
    return std::move(outcome_);
  }

 private:
  [[nodiscard]] double seconds() const {
    return std::chrono::duration<double>(Clock::now() - began_).count();
  }

  // Whole proposals that add up to the budget once all shares are given out.
  std::vector<ChainBudget> slices(double share, std::size_t chains) {
    const std::int64_t before = proposals_given_;
    shares_given_ += share;
    proposals_given_ = std::llround(shares_given_ * static_cast<double>(options_.budget.proposals));
    const std::int64_t all = proposals_given_ - before, n = static_cast<std::int64_t>(chains);
    const double together = std::min<double>(static_cast<double>(n), std::max(1, options_.threads));
    std::vector<ChainBudget> budgets(chains);
    for (std::int64_t i = 0; i < n; ++i) {
      ChainBudget& b = budgets[static_cast<std::size_t>(i)];
      b.seconds = options_.budget.seconds * share * together / static_cast<double>(n);
      if (options_.budget.proposals > 0) b.proposals = all * (i + 1) / n - all * i / n;
      b.none = options_.budget.proposals > 0 && b.proposals == 0;
    }
    return budgets;
  }

  bool note(std::int64_t proposals, std::int64_t accepted, Nanoseconds best) {
    const std::scoped_lock lock(mutex_);
    shown_.proposals += proposals;
    shown_.accepted += accepted;
    if (best > 0 && (shown_.best == 0 || best < shown_.best)) shown_.best = best;
    shown_.seconds = seconds();
    if (progress_ && !progress_(shown_)) stopped_ = true;
    return !stopped_;
  }

  bool keep(const ChainOutcome& chain, const std::string& name) {
    outcome_.proposals += chain.proposals;
    outcome_.accepted += chain.accepted;
    if (chain.best.empty() || (!best_.empty() && chain.evaluation.time >= best_evaluation_.time))
      return false;
    best_ = chain.best;
    best_evaluation_ = chain.evaluation;
    outcome_.found_by = name;
    return true;
  }

  const ConfigSpace& space_;
  Moves moves_;
  McmcOptions options_;
  const ProgressCallback& progress_;
  Rng rng_;
  tbb::task_arena arena_;
  tbb::enumerable_thread_specific<std::unique_ptr<Evaluator>> evaluators_;
  Clock::time_point began_ = Clock::now();
  std::uint64_t streams_used_ = 1;
  double shares_given_ = 0;
  std::int64_t proposals_given_ = 0;
  std::mutex mutex_;
  SearchProgress shown_;
  bool stopped_ = false;
  SearchOutcome outcome_;
  std::vector<ChainOutcome> outcomes_;  // of the last round
  std::vector<std::size_t> best_;
  Evaluation best_evaluation_;
};

}  // namespace

SearchOutcome mcmc(const OperatorGraph& graph, const CostModel& costs, const PlanOptions& plan_options,
                   const CandidateSet& candidates, const std::vector<SearchStart>& starts,
                   const McmcOptions& options, const ProgressCallback& progress) {
  std::vector<Strategy> strategies;
  for (const SearchStart& s : starts) strategies.push_back(s.strategy);
  const ConfigSpace space(candidates, strategies);
  Rounds rounds(graph, costs, plan_options, space, options, progress);
  std::vector<Rounds::Start> first;
  for (const SearchStart& s : starts) {
    first.push_back({"mcmc from " + s.name, space.indices(s.strategy), options.warm});
  }
  Rng rng = Rng(options.seed).split(0);
  const auto random_start = [&] {
    return Rounds::Start{"mcmc from random", random_state(space, rounds.moves(), rng), options.hottest};
  };
  first.push_back(random_start());
  rounds.run(first, kFirstShare);
  const bool random_pays = rounds.came_close(first.size() - 1);
  double idle = 0;
  for (int round = 0; round < kLaterRounds && idle < 0.5 && !rounds.stopped(); ++round) {
    const Rounds::Start best{"mcmc", rounds.best_state().empty() ? first.front().state : rounds.best_state(),
                             options.warm};
    constexpr double kShare = (1 - kFirstShare) / kLaterRounds;
    const bool improved = rounds.run({best, random_pays ? random_start() : best}, kShare);
    idle = improved ? 0 : idle + kShare;
  }
  return rounds.finish();
}

}  // namespace pipesim
