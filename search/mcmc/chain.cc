#include "search/mcmc/chain.h"

#include <algorithm>
#include <cmath>

namespace pipesim {

Chain::Chain(const Moves& moves, BoundConfigs& configs, Cost cost, ChainState state)
    : moves_(&moves),
      configs_(configs),
      evaluator_(configs.evaluator()),
      cost_(cost),
      state_(std::move(state)) {
  begin();
}

// Scores the current configs, which costs nothing but time where they have been scored before.
void Chain::begin() {
  state_.current.evaluation = evaluator_.start(configs_.bind(state_.current.plan));
  current_ = cost_(state_.current.evaluation);
  digest_ = KnownCosts::digest_of(state_.current.plan);
  if (state_.lowest == 0) state_.lowest = current_;
  note_best();
}

void Chain::restart(const Moves& moves, std::vector<std::size_t> configs) {
  moves_ = &moves;
  state_.best = {};
  state_.counts = {};
  if (configs != state_.current.plan) {
    state_.current.plan = std::move(configs);
    state_.lowest = 0;
    return begin();
  }
  state_.lowest = current_;
  note_best();
}

void Chain::note_best() {
  const Evaluation& e = state_.current.evaluation;
  if (!e.feasible() || (!state_.best.plan.empty() && e.time >= state_.best.evaluation.time)) return;
  state_.best = state_.current;
}

void Chain::accept(const Evaluation& evaluation) {
  evaluator_.accept();
  digest_ = KnownCosts::after(digest_, state_.current.plan, proposal_.changes);
  for (const ConfigChange& c : proposal_.changes) state_.current.plan[c.op.index()] = c.index;
  if (evaluation != state_.current.evaluation)
    ++state_.counts.accepted[static_cast<std::size_t>(proposal_.kind)];
  state_.current.evaluation = evaluation;
  current_ = cost_(evaluation);
  ++state_.accepted;
  note_best();
  state_.lowest = std::min(state_.lowest, current_);
}

bool Chain::step(const MoveRates& rates, double temperature) {
  moves_->propose(state_.current.plan, rates, state_.rng, proposal_);
  if (proposal_.changes.empty()) return false;
  ++state_.proposals;
  ++state_.counts.proposed[static_cast<std::size_t>(proposal_.kind)];
  const double u = 1 - state_.rng.uniform();  // in (0, 1]
  const double most = highest_accepted(current_, temperature, u, proposal_.log_ratio);
  const KnownCosts::Digest digest = KnownCosts::after(digest_, state_.current.plan, proposal_.changes);
  const std::optional<double> above = known_.above(digest);
  if (above && *above >= most) {
    ++rejected_as_known_;
    return true;
  }
  // What is offered a second time will be offered again: then it pays to know a little more than is needed.
  constexpr double kFurther = 8;  // temperatures
  // Lest a hot chain's limit exceed what the engine's clock can add up.
  constexpr double kLongest = 4e18;
  const double limit = std::min(kLongest, above ? std::max(most, current_ + kFurther * temperature) : most);
  const auto evaluation = evaluate(limit);
  if (!evaluation) {
    known_.keep(digest, limit);
    return true;
  }
  const double cost = cost_(*evaluation);
  if (cost <= most) {
    accept(*evaluation);
  } else {
    known_.keep(digest, std::nextafter(cost, 0.0));
    evaluator_.reject();
  }
  return true;
}

// Evaluates the proposal; nothing when it costs more than the limit.
std::optional<Evaluation> Chain::evaluate(double limit) {
  changes_.clear();
  for (const ConfigChange& c : proposal_.changes) changes_.push_back({c.op, configs_.bind(c.op, c.index)});
  return evaluator_.propose(changes_, static_cast<Nanoseconds>(std::floor(limit)));
}

bool Chain::run(const ChainSlice& slice, const Report& report) {
  constexpr std::int64_t kReportEvery = 16;
  if (evaluator_.is_outdated()) evaluator_.refresh(configs_.bind(state_.current.plan));
  std::int64_t made = 0, reported = 0, accepted = state_.accepted;
  double temperature = slice.temperature;
  const double cooling =
      slice.cooled > 0 ? std::pow(slice.cooled / temperature, 1 / static_cast<double>(slice.draws)) : 1;
  for (std::int64_t draw = 0; draw < slice.draws && made < slice.proposals; ++draw) {
    made += step(slice.rates, temperature) ? 1 : 0;
    temperature *= cooling;
    if (made < reported + kReportEvery) continue;
    if (!report(made - reported, state_.accepted - accepted)) return false;
    reported = made;
    accepted = state_.accepted;
  }
  return report(made - reported, state_.accepted - accepted);
}

}  // namespace pipesim
