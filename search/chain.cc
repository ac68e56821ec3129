#include "search/chain.h"

#include <algorithm>
#include <cmath>

namespace pipesim {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

Bytes all_memory(const Topology& topology) {
  Bytes sum;
  for (std::size_t d = 0; d < topology.num_devices(); ++d) sum += topology.kind(DeviceId(d)).memory;
  return sum;
}

// How much of the budget is gone, from 0 to 1.
double spent(const ChainBudget& budget, std::int64_t proposals, Clock::time_point start) {
  double share = budget.none ? 1 : 0;
  if (budget.proposals > 0) share = static_cast<double>(proposals) / static_cast<double>(budget.proposals);
  if (budget.seconds > 0) share = std::max(share, seconds_since(start) / budget.seconds);
  return share;
}

}  // namespace

Chain::Chain(const ConfigSpace& space, const Moves& moves, Evaluator& evaluator, const McmcOptions& options)
    : space_(space), moves_(moves), evaluator_(evaluator), options_(options) {}

double Chain::cost(const Evaluation& e) const {
  return static_cast<double>(e.time) + overflow_price_ * static_cast<double>(e.overflow.value);
}

const BoundOperator* Chain::bound(ConfigChange change) {
  return evaluator_.builder().bind(change.op, space_.config(change.op, change.index));
}

void Chain::note_best(const Evaluation& e) {
  if (!e.feasible() || (!outcome_.best.empty() && e.time >= outcome_.evaluation.time)) return;
  outcome_.best = state_;
  outcome_.evaluation = e;
}

void Chain::begin(const std::vector<std::size_t>& start) {
  outcome_ = {};
  state_ = start;
  strategy_.clear();
  for (std::size_t i = 0; i < start.size(); ++i) strategy_.push_back(bound({OperatorId(i), start[i]}));
  const Evaluation e = evaluator_.evaluate(strategy_);
  constexpr double kTolerableShare = 0.01;
  overflow_price_ = static_cast<double>(e.time) /
                    (kTolerableShare * static_cast<double>(all_memory(evaluator_.topology()).value));
  current_ = cost(e);
  note_best(e);
}

bool Chain::step(double temperature, Rng& rng) {
  moves_.propose(state_, rng, changes_);
  if (changes_.empty()) return false;
  replaced_.clear();
  for (ConfigChange& c : changes_) {
    replaced_.push_back(strategy_[c.op.index()]);
    strategy_[c.op.index()] = bound(c);
    std::swap(state_[c.op.index()], c.index);
  }
  const Evaluation e = evaluator_.evaluate(strategy_);
  const double proposed = cost(e), u = rng.uniform();
  ++outcome_.proposals;
  if (proposed <= current_ || u < std::exp((current_ - proposed) / temperature)) {
    current_ = proposed;
    ++outcome_.accepted;
    note_best(e);
    return true;
  }
  for (std::size_t i = 0; i < changes_.size(); ++i) {
    strategy_[changes_[i].op.index()] = replaced_[i];
    state_[changes_[i].op.index()] = changes_[i].index;
  }
  return true;
}

ChainOutcome Chain::run(const std::vector<std::size_t>& start, ChainBudget budget, Rng rng,
                        const Report& report) {
  const Clock::time_point began = Clock::now();
  begin(start);
  const double hottest = options_.hottest * current_, coldest = options_.coldest * current_;
  constexpr int kMostIdleDraws = 10'000;  // a space of one strategy has nothing to propose
  std::int64_t reported = 0, reported_accepted = 0;
  int idle = 0;
  for (double share = spent(budget, 0, began); share < 1 && idle < kMostIdleDraws;
       share = spent(budget, outcome_.proposals, began)) {
    idle = step(hottest * std::pow(coldest / hottest, share), rng) ? 0 : idle + 1;
    constexpr std::int64_t kReportEvery = 16;
    if (outcome_.proposals - reported < kReportEvery) continue;
    const Nanoseconds best = outcome_.best.empty() ? 0 : outcome_.evaluation.time;
    if (!report(outcome_.proposals - reported, outcome_.accepted - reported_accepted, best)) break;
    reported = outcome_.proposals;
    reported_accepted = outcome_.accepted;
  }
  return outcome_;
}

}  // namespace pipesim
