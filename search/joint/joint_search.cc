#include "search/joint/joint_search.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <numeric>
#include <set>
#include <string>
#include <utility>

#include "search/annealing/cooling.h"
#include "sim/base/deadline.h"
#include "sim/base/errors.h"

namespace pipesim {
namespace {

constexpr Cooling kJointCooling{2e-2, 2e-2, 1e-4};  // all chains alike
constexpr std::int64_t kFirstChain = 50;            // proposals of the first round
constexpr std::int64_t kPart = 50;                  // proposals of a chain between checkpoints
constexpr std::size_t kMostChains = 8, kFewestChains = 4;

class JointSearch : Annealer {
 public:
  JointSearch(JointState& state, JointEvaluator& evaluator, const JointMoves& moves,
              const JointOptions& options, const ProgressCallback& progress)
      : Annealer(state, options, progress),
        state_(state),
        moves_(moves),
        options_(options),
        evaluators_{&evaluator} {
    while (evaluators_.size() < threads().count()) {
      own_.push_back(evaluator.another());
      evaluators_.push_back(own_.back().get());
    }
    for (JointEvaluator* e : evaluators_) e->share_memory(threads().count());
  }

  JointOutcome run(const std::vector<JointPlan>& starts) {
    if (!options_.resume) begin(starts);
    run_slices();
    return {state_.best,     state_.start,  state_.proposals, state_.accepted, state_.seconds = seconds(),
            state_.improved, state_.history};
  }

 private:
  // Those that fit first.
  [[nodiscard]] std::pair<bool, double> rank(const Scored<JointPlan>& p) const {
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
    run_chains(numbers(starts.size()), [&](std::size_t i, std::size_t worker) {
      scored[i] =
          evaluators_[worker]->evaluate(starts[i]);  // where time is over, others may be known already
    });
    if (stopped() && std::ranges::none_of(scored, [](const auto& s) { return s.has_value(); }))
      throw OutOfTime();
    std::vector<JointChain>& chains = state_.chains;
    for (std::size_t i = 0; i < starts.size(); ++i) {
      const Scored<JointPlan> start{starts[i], scored[i].value_or(Evaluation())};
      if (scored[i]) chains.push_back({i, start, start});
    }
    if (chains.empty()) throw InternalError("a joint search without a start");
    state_.seed = options_.seed;
    const auto fastest =
        std::ranges::min(chains, {}, [](const JointChain& c) { return c.best.evaluation.time; });
    state_.cost =
        Cost::with_price_of(fastest.best.evaluation.time, evaluators_.front()->topology().usable_memory());
    sort(chains);
    state_.best = chains.front().best;
    state_.start = chains.front().start;
    best_of_algorithms_first(chains);
    if (chains.size() > kMostChains) chains.resize(kMostChains);
    if (state_.best.evaluation.feasible()) note_best(state_.best.evaluation.time, 0);
    begin_round();
  }

  void best_of_algorithms_first(std::vector<JointChain>& sorted) const {
    if (options_.algorithms.empty()) return;
    std::set<std::string> met;
    std::stable_partition(sorted.begin(), sorted.end(), [&](const JointChain& c) {
      return met.insert(options_.algorithms[c.start]).second;
    });
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

  bool begin_slice() override {
    if (state_.done < state_.length) return true;
    std::vector<JointChain>& chains = state_.chains;
    sort(chains);
    const std::size_t kept = (chains.size() + 1) / 2;
    chains.resize(kept);
    while (chains.size() < kFewestChains) chains.push_back(chains[chains.size() - kept]);
    ++state_.round;
    begin_round();
    return true;
  }

  // A part of a round.
  [[nodiscard]] Slice next_slice() const override {
    return {static_cast<std::int64_t>(state_.chains.size()), std::min(kPart, state_.length - state_.done)};
  }

  void run_slice() override {
    ran_ = state_.chains;
    did_.assign(ran_.size(), {});
    run_chains(numbers(ran_.size()), [&](std::size_t i, std::size_t worker) {
      anneal(ran_[i], proposals_of(static_cast<std::int64_t>(i)), *evaluators_[worker], did_[i]);
    });
  }

  // What a chain did in a part.
  struct Done {
    std::int64_t proposals = 0, accepted = 0;
    JointMoveCounts improved{};
  };

  // Called by all threads. Counts what it did, even where it is stopped.
  void anneal(JointChain& chain, std::int64_t proposals, JointEvaluator& evaluator, Done& counts) {
    auto least = std::min(rank(state_.best), rank(chain.best));
    for (std::int64_t i = 0; i < proposals && !stopped(); ++i) {
      const double done = static_cast<double>(state_.done + i) / static_cast<double>(state_.length);
      const double temperature = state_.least * kJointCooling.temperature(1, 0, 1, done);
      const JointMoveKind kind = moves_.draw(chain.rng);
      const double most =
          highest_accepted(state_.cost(chain.now.evaluation), temperature, chain.rng.uniform());
      auto plan = moves_.propose(chain.now.plan, kind, chain.rng);
      ++counts.proposals;
      const auto hopeless = [&](const Evaluation& at_least) { return state_.cost(at_least) > most; };
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
      const Evaluation& best = chain.best.evaluation;
      count(1, accepted ? 1 : 0, best.feasible() ? best.time : 0, 0);
    }
  }

  void collect() override {
    const auto before = rank(state_.best);
    state_.chains = std::move(ran_);
    for (std::size_t i = 0; i < did_.size(); ++i) {
      const JointChain& chain = state_.chains[i];
      state_.proposals += did_[i].proposals;
      state_.accepted += did_[i].accepted;
      for (std::size_t k = 0; k < kJointMoveKinds; ++k) state_.improved[k] += did_[i].improved[k];
      if (rank(chain.best) >= rank(state_.best)) continue;
      state_.best = chain.best;
      state_.start = chain.start;
    }
    state_.seconds = seconds();
    if (rank(state_.best) < before && state_.best.evaluation.feasible())
      note_best(state_.best.evaluation.time, 0);
  }

  void end_slice() override { state_.done += next_slice().proposals; }

  void keep_state(bool last) override {
    if (options_.keep) options_.keep(state_, last);
  }

  JointState& state_;
  const JointMoves& moves_;
  const JointOptions& options_;
  std::vector<std::unique_ptr<JointEvaluator>> own_;
  std::vector<JointEvaluator*> evaluators_;  // by worker
  std::vector<JointChain> ran_;              // in a part, before it is collected
  std::vector<Done> did_;                    // by chain
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
  JointState state = options.resume.value_or(JointState());
  return JointSearch(state, evaluator, moves, options, progress).run(starts);
}

}  // namespace pipesim
