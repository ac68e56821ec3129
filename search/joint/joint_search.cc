#include "search/joint/joint_search.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <limits>
#include <numeric>

#include "search/chain.h"
#include "sim/base/errors.h"

namespace pipesim {
namespace {

using JointClock = std::chrono::steady_clock;

// Of the least cost: what a chain accepts at its beginning and at its end with probability 1/e.
constexpr double kHottestJoint = 2e-2, kColdestJoint = 1e-4;
constexpr std::int64_t kFirstChain = 50;  // proposals
constexpr std::size_t kMostStarts = 8;

class JointSearch {
 public:
  JointSearch(JointEvaluator& evaluator, const JointMoves& moves, const SearchBudget& budget,
              std::uint64_t seed, const ProgressCallback& progress)
      : evaluator_(evaluator), moves_(moves), budget_(budget), progress_(progress), rng_(seed) {}

  JointOutcome run(const std::vector<JointPlan>& starts) {
    std::vector<Start> field = scored(starts);
    note(field.front());
    if (field.size() > kMostStarts) field.resize(kMostStarts);
    for (std::int64_t length = kFirstChain; go_on(); length *= 2) {
      for (Start& start : field) start = anneal(start, length);
      std::ranges::stable_sort(field, {}, [&](const Start& s) { return rank(s.scored.evaluation); });
      field.resize((field.size() + 1) / 2);
    }
    outcome_.seconds = seconds();
    return std::move(outcome_);
  }

 private:
  struct Start {
    ScoredJointPlan scored;
    std::size_t number = 0;
  };

  // Best first; illegal ones are left out.
  std::vector<Start> scored(const std::vector<JointPlan>& starts) {
    std::vector<Start> list;
    for (std::size_t i = 0; i < starts.size(); ++i) {
      if (const auto evaluation = evaluator_.evaluate(starts[i]))
        list.push_back({{starts[i], *evaluation}, i});
    }
    if (list.empty()) throw InternalError("a joint search without a start");
    std::int64_t memory = 0;
    const Topology& topology = evaluator_.topology();
    for (std::size_t d = 0; d < topology.num_devices(); ++d)
      memory += topology.usable_memory(DeviceId(d)).value;
    const auto fastest = std::ranges::min(list, {}, [](const Start& s) { return s.scored.evaluation.time; });
    cost_.overflow_price = 100 * static_cast<double>(fastest.scored.evaluation.time) /
                           static_cast<double>(std::max<std::int64_t>(1, memory));
    std::ranges::stable_sort(list, {}, [&](const Start& s) { return rank(s.scored.evaluation); });
    return list;
  }

  // Those that fit first.
  [[nodiscard]] std::pair<bool, double> rank(const Evaluation& e) const { return {!e.feasible(), cost_(e)}; }

  // The best on the way.
  Start anneal(Start now, std::int64_t length) {
    const double least = cost_(outcome_.best.evaluation);
    Start best = now;
    for (std::int64_t i = 0; i < length && go_on(); ++i) {
      const double done = static_cast<double>(i) / static_cast<double>(length);
      const double temperature = least * kHottestJoint * std::pow(kColdestJoint / kHottestJoint, done);
      const JointMoveKind kind = moves_.draw(rng_);
      const double drawn = rng_.uniform();
      auto plan = moves_.propose(now.scored.plan, kind, rng_);
      ++outcome_.proposals;
      if (!plan) continue;
      const auto evaluation = evaluator_.evaluate(*plan);
      if (!evaluation) continue;
      const double worse = cost_(*evaluation) - cost_(now.scored.evaluation);
      if (worse > 0 && drawn >= std::exp(-worse / temperature)) continue;
      ++outcome_.accepted;
      now.scored = {*std::move(plan), *evaluation};
      if (rank(*evaluation) < rank(best.scored.evaluation)) best = now;
      if (rank(*evaluation) < rank(outcome_.best.evaluation)) {
        ++outcome_.improved[static_cast<std::size_t>(kind)];
        note(now);
      }
    }
    return best;
  }

  void note(const Start& found) {
    outcome_.best = found.scored;
    outcome_.start = found.number;
    if (found.scored.evaluation.feasible())
      outcome_.history.push_back({seconds(), outcome_.proposals, found.scored.evaluation.time, 0});
  }

  [[nodiscard]] double seconds() const {
    return std::chrono::duration<double>(JointClock::now() - began_).count();
  }

  bool go_on() {
    if (stopped_) return false;
    const bool enough = (budget_.proposals > 0 && outcome_.proposals >= budget_.proposals) ||
                        (budget_.seconds > 0 && seconds() >= budget_.seconds);
    const Evaluation& best = outcome_.best.evaluation;
    stopped_ = enough || (progress_ && !progress_({outcome_.proposals, outcome_.accepted, seconds(),
                                                   best.feasible() ? best.time : 0, 0}));
    return !stopped_;
  }

  JointEvaluator& evaluator_;
  const JointMoves& moves_;
  SearchBudget budget_;
  const ProgressCallback& progress_;
  Rng rng_;
  Cost cost_;
  JointOutcome outcome_;
  JointClock::time_point began_ = JointClock::now();
  bool stopped_ = false;
};

}  // namespace

JointOutcome search_jointly(JointEvaluator& evaluator, const JointMoves& moves,
                            const std::vector<JointPlan>& starts, const SearchBudget& budget,
                            std::uint64_t seed, const ProgressCallback& progress) {
  return JointSearch(evaluator, moves, budget, seed, progress).run(starts);
}

}  // namespace pipesim
