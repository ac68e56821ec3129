#include "search/joint/joint_search.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <memory>
#include <mutex>
#include <numeric>
#include <utility>

#include "search/mcmc/chain_threads.h"
#include "sim/base/deadline.h"
#include "sim/base/errors.h"

namespace pipesim {
namespace {

using JointClock = std::chrono::steady_clock;

// Of the least cost: what a chain accepts at its beginning and at its end with probability 1/e.
constexpr double kHottestJoint = 2e-2, kColdestJoint = 1e-4;
constexpr std::int64_t kFirstChain = 50;  // proposals of the first round
constexpr std::int64_t kPart = 50;        // proposals of a chain between checkpoints
constexpr std::size_t kMostChains = 8, kFewestChains = 4;

class JointSearch {
 public:
  JointSearch(JointEvaluator& evaluator, const JointMoves& moves, const JointOptions& options,
              const ProgressCallback& progress)
      : moves_(moves),
        options_(options),
        progress_(progress),
        threads_(static_cast<std::size_t>(std::max(1, options.threads))),
        evaluators_{&evaluator} {
    while (evaluators_.size() < threads_.count()) {
      own_.push_back(evaluator.another());
      evaluators_.push_back(own_.back().get());
    }
    for (JointEvaluator* e : evaluators_) e->share_memory(threads_.count());
  }

  JointOutcome run(const std::vector<JointPlan>& starts) {
    if (options_.resume) {
      state_ = *options_.resume;
      seconds_before_ = state_.seconds;
    } else {
      begin(starts);
    }
    shown_ = {state_.proposals, state_.accepted, seconds(), best_time(state_.best.evaluation), 0};
    stopped_ = stopped_ || (progress_ && !progress_(shown_));
    while (!stopped_ && !spent()) {
      if (state_.done == state_.length) next_round();
      keep(!has_whole_part());
      run_part();
    }
    keep(true);
    return {state_.best,     state_.start,  state_.proposals, state_.accepted, state_.seconds = seconds(),
            state_.improved, state_.history};
  }

 private:
  [[nodiscard]] double seconds() const {
    return seconds_before_ + std::chrono::duration<double>(JointClock::now() - began_).count();
  }
  [[nodiscard]] bool spent() const {
    const SearchBudget& b = options_.budget;
    return (b.proposals > 0 && state_.proposals >= b.proposals) || (b.seconds > 0 && seconds() >= b.seconds);
  }
  static Nanoseconds best_time(const Evaluation& best) { return best.feasible() ? best.time : 0; }

  // Those that fit first.
  [[nodiscard]] std::pair<bool, double> rank(const ScoredJointPlan& p) const {
    return {!p.evaluation.feasible(), state_.cost(p.evaluation)};
  }
  void sort(std::vector<JointChain>& chains) const {
    std::ranges::stable_sort(chains, {}, [&](const JointChain& c) { return rank(c.best); });
  }

  [[nodiscard]] static std::vector<std::size_t> numbers(std::size_t count) {
    std::vector<std::size_t> list(count);
    std::iota(list.begin(), list.end(), std::size_t{0});
    return list;
  }

  // The first chains, from the best starts; illegal ones are left out.
  void begin(const std::vector<JointPlan>& starts) {
    std::vector<std::optional<Evaluation>> scored(starts.size());
    threads_.run(numbers(starts.size()), [&](std::size_t i, std::size_t worker) {
      try {
        scored[i] = evaluators_[worker]->evaluate(starts[i]);
      } catch (const OutOfTime&) {  // others may be known already
        const std::scoped_lock lock(mutex_);
        stopped_ = true;
      }
    });
    if (stopped_ && std::ranges::none_of(scored, [](const auto& s) { return s.has_value(); }))
      throw OutOfTime();
    kept_last_ |= stopped_;  // what began with fewer starts is no search to go on with
    std::vector<JointChain>& chains = state_.chains;
    for (std::size_t i = 0; i < starts.size(); ++i) {
      const ScoredJointPlan start{starts[i], scored[i].value_or(Evaluation())};
      if (scored[i]) chains.push_back({i, start, start});
    }
    if (chains.empty()) throw InternalError("a joint search without a start");
    state_.seed = options_.seed;
    state_.cost.overflow_price = overflow_price();
    sort(chains);
    if (chains.size() > kMostChains) chains.resize(kMostChains);
    state_.best = chains.front().best;
    state_.start = chains.front().start;
    note_best();
    begin_round();
  }

  [[nodiscard]] double overflow_price() const {
    const std::int64_t memory = evaluators_.front()->topology().usable_memory().value;
    const auto fastest =
        std::ranges::min(state_.chains, {}, [](const JointChain& c) { return c.best.evaluation.time; });
    return 100 * static_cast<double>(fastest.best.evaluation.time) /
           static_cast<double>(std::max<std::int64_t>(1, memory));
  }

  void begin_round() {
    state_.length = kFirstChain << state_.round;
    state_.done = 0;
    state_.least = state_.cost(state_.best.evaluation);
    const Rng rng = Rng(state_.seed).split(static_cast<std::uint64_t>(state_.round));
    for (std::size_t i = 0; i < state_.chains.size(); ++i) {
      JointChain& chain = state_.chains[i];
      chain.now = chain.best;
      chain.rng = rng.split(i);
    }
  }

  void next_round() {
    std::vector<JointChain>& chains = state_.chains;
    sort(chains);
    const std::size_t kept = (chains.size() + 1) / 2;
    chains.resize(kept);
    while (chains.size() < kFewestChains) chains.push_back(chains[chains.size() - kept]);
    ++state_.round;
    begin_round();
  }

  // Proposals of all chains in the part that comes.
  [[nodiscard]] std::int64_t part() const { return std::min(kPart, state_.length - state_.done); }
  [[nodiscard]] bool has_whole_part() const {
    const std::int64_t all = part() * static_cast<std::int64_t>(state_.chains.size());
    return options_.budget.proposals == 0 || options_.budget.proposals - state_.proposals >= all;
  }

  // What a chain did in a part.
  struct Done {
    std::int64_t proposals = 0, accepted = 0;
    JointMoveCounts improved{};
  };

  void run_part() {
    const auto count = static_cast<std::int64_t>(state_.chains.size());
    const std::int64_t whole = part(), left = options_.budget.proposals - state_.proposals;
    const bool all = has_whole_part();
    std::vector<JointChain> chains = state_.chains;
    std::vector<Done> done(chains.size());
    threads_.run(numbers(chains.size()), [&](std::size_t i, std::size_t worker) {
      const auto n = static_cast<std::int64_t>(i);
      const std::int64_t mine = all ? whole : left * (n + 1) / count - left * n / count;
      try {
        anneal(chains[i], mine, *evaluators_[worker], done[i]);
      } catch (const OutOfTime&) {
        const std::scoped_lock lock(mutex_);
        stopped_ = true;
      }
    });
    if (stopped_) keep(true);  // nothing can go on from the middle of a part, but what it found counts
    state_.chains = std::move(chains);
    state_.done += whole;
    collect(done);
  }

  // Called by all threads. Counts what it did, even where it is stopped.
  void anneal(JointChain& chain, std::int64_t proposals, JointEvaluator& evaluator, Done& counts) {
    auto least = std::min(rank(state_.best), rank(chain.best));
    for (std::int64_t i = 0; i < proposals && go_on(); ++i) {
      const double done = static_cast<double>(state_.done + i) / static_cast<double>(state_.length);
      const double temperature = state_.least * kHottestJoint * std::pow(kColdestJoint / kHottestJoint, done);
      const JointMoveKind kind = moves_.draw(chain.rng);
      const double drawn = chain.rng.uniform();
      auto plan = moves_.propose(chain.now.plan, kind, chain.rng);
      ++counts.proposals;
      const auto hopeless = [&](const Evaluation& at_least) {
        return !accepts(at_least, chain, drawn, temperature);
      };
      const auto evaluation = plan ? evaluator.evaluate(*plan, hopeless) : std::nullopt;
      const bool accepted = evaluation && !hopeless(*evaluation);
      if (accepted) {
        ++counts.accepted;
        chain.now = {*std::move(plan), *evaluation};
        if (rank(chain.now) < rank(chain.best)) chain.best = chain.now;
        if (rank(chain.best) < least) {
          least = rank(chain.best);
          ++counts.improved[static_cast<std::size_t>(kind)];
        }
      }
      show(accepted, chain.best.evaluation);
    }
  }

  [[nodiscard]] bool accepts(const Evaluation& proposed, const JointChain& chain, double drawn,
                             double temperature) const {
    const double worse = state_.cost(proposed) - state_.cost(chain.now.evaluation);
    return worse <= 0 || drawn < std::exp(-worse / temperature);
  }

  [[nodiscard]] bool go_on() {
    const std::scoped_lock lock(mutex_);
    return !stopped_;
  }

  void show(bool accepted, const Evaluation& best) {
    const std::scoped_lock lock(mutex_);
    ++shown_.proposals;
    shown_.accepted += accepted ? 1 : 0;
    if (best.feasible() && (shown_.best == 0 || best.time < shown_.best)) shown_.best = best.time;
    shown_.seconds = seconds();
    const double most = options_.budget.seconds;
    if ((progress_ && !progress_(shown_)) || (most > 0 && shown_.seconds >= most)) stopped_ = true;
  }

  // What the chains found, in their order.
  void collect(const std::vector<Done>& done) {
    const auto before = rank(state_.best);
    for (std::size_t i = 0; i < done.size(); ++i) {
      const JointChain& chain = state_.chains[i];
      state_.proposals += done[i].proposals;
      state_.accepted += done[i].accepted;
      for (std::size_t k = 0; k < kJointMoveKinds; ++k) state_.improved[k] += done[i].improved[k];
      if (rank(chain.best) >= rank(state_.best)) continue;
      state_.best = chain.best;
      state_.start = chain.start;
    }
    state_.seconds = seconds();
    if (rank(state_.best) < before) note_best();
  }

  void note_best() {
    if (state_.best.evaluation.feasible())
      state_.history.push_back({seconds(), state_.proposals, state_.best.evaluation.time, 0});
  }

  void keep(bool last) {
    if (options_.keep && !kept_last_) options_.keep(state_, last);
    kept_last_ |= last;
  }

  const JointMoves& moves_;
  const JointOptions& options_;
  const ProgressCallback& progress_;
  ChainThreads threads_;
  std::vector<std::unique_ptr<JointEvaluator>> own_;
  std::vector<JointEvaluator*> evaluators_;  // by worker
  JointState state_;
  JointClock::time_point began_ = JointClock::now();
  double seconds_before_ = 0;
  std::mutex mutex_;  // for what follows
  SearchProgress shown_;
  bool stopped_ = false;
  bool kept_last_ = false;
};

}  // namespace

std::string improving_moves(const JointOutcome& outcome) {
  std::string text;
  for (std::size_t k = 0; k < kJointMoveKinds; ++k) {
    if (outcome.improved[k] == 0) continue;
    text += fmt::format("{}{} {}", text.empty() ? "" : ", ", name_of(static_cast<JointMoveKind>(k)),
                        outcome.improved[k]);
  }
  return text;
}

JointOutcome search_jointly(JointEvaluator& evaluator, const JointMoves& moves,
                            const std::vector<JointPlan>& starts, const JointOptions& options,
                            const ProgressCallback& progress) {
  return JointSearch(evaluator, moves, options, progress).run(starts);
}

}  // namespace pipesim
