#include "search/mcmc/mcmc.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <numeric>

#include "search/additive/additive_starts.h"
#include "search/search_json.h"
#include "sim/base/deadline.h"
#include "sim/base/errors.h"

namespace pipesim {
namespace {

constexpr std::int64_t kDraws = 256;           // of a chain in a round
constexpr std::int64_t kBurnInCycles = 4;      // of a grain, while its rates adapt
constexpr std::int64_t kFirstCycles = 3;       // of repeats
constexpr double kLargeGain = 0.01;            // of the cost in a cycle: the grain stays
constexpr double kFruitless = 10;              // heat after a cycle that gained nothing
constexpr double kFarBehind = 2;               // of the least cost: nothing to begin a cycle at
constexpr double kFarAtFirst = 1.2;            // the same of a chain's own start
constexpr Bytes kMostRemembered(250'000'000);  // of configs, layouts and transfers, by all chains

// Splits and places all operators like one of them, drawn at random, where they can be; the others get any
// config.
std::vector<std::size_t> random_configs(const ConfigSpace& space, const SplitStyles& styles, Rng& rng) {
  const CandidateSet& candidates = space.candidates();
  const OperatorId leader(rng.below(space.num_operators()));
  const CandidateSet::Position p = candidates.position(leader, rng.below(candidates.size(leader)));
  std::vector<std::size_t> configs;
  for (std::size_t i = 0; i < space.num_operators(); ++i) {
    const std::size_t drawn = rng.below(candidates.size(OperatorId(i)));
    configs.push_back(styles.config(OperatorId(i), p.size, p.list, styles.style(leader, p)).value_or(drawn));
  }
  return configs;
}

// What chains share: all that is remembered of configs, layouts and transfers.
struct Memory {
  Memory(const OperatorGraph& graph, const CostModel& costs, const PlanOptions& options,
         const ConfigSpace& space)
      : evaluator(graph, costs, options), configs(space, evaluator) {}
  Evaluator evaluator;
  BoundConfigs configs;
};

class Tempering : Annealer {
 public:
  Tempering(SearchState& state, const OperatorGraph& graph, const CostModel& costs,
            const PlanOptions& plan_options, const ConfigSpace& space, const McmcOptions& options,
            const ProgressCallback& progress)
      : Annealer(state, options, progress),
        state_(state),
        space_(space),
        units_(repeated_operators(space.candidates())),
        single_moves_(space),
        repeat_moves_(space, units_),
        options_(options) {
    // A full evaluation blocks all others in its memory, so each thread gets a memory of its own.
    const std::size_t memories = evaluates_in_full(plan_options, costs.runtime()) ? threads().count() : 1;
    for (std::size_t i = 0; i < memories; ++i)
      memories_.push_back(std::make_unique<Memory>(graph, costs, plan_options, space));
  }

  // Where there was no time to begin, nothing was found.
  SearchOutcome run(const std::vector<SearchStart>& starts) {
    try {
      begin(starts);
    } catch (const OutOfTime&) {
      return outcome();
    }
    run_slices();
    return outcome();
  }

 private:
  void begin(const std::vector<SearchStart>& starts) {
    if (!options_.resume) begin_anew(starts);
    chains_.resize(state_.chains.size());
    const std::size_t running = std::max<std::size_t>(1, state_.cycle.chains);
    threads().run(hottest_first(), [&](std::size_t i, std::size_t) {
      if (state_.rung[i] < running) chains_[i] = chain_of(i, moves_of(state_.cycle.grain));
    });
    if (!options_.resume) collect();
  }

  SearchOutcome outcome() {
    SearchOutcome result;
    if (!state_.best.plan.empty()) {
      result.best = Scored<Strategy>{space_.strategy(state_.best.plan), state_.best.evaluation};
    } else if (begun_at_) {
      result.best = Scored<Strategy>{space_.strategy(begun_at_->plan), begun_at_->evaluation};
    }
    result.found_by = result.best ? "mcmc" : "";
    result.proposals = state_.proposals;
    result.accepted = state_.accepted;
    result.seconds = seconds();
    result.history = state_.history;
    return result;
  }

  // A chain takes time and memory from when it first runs.
  [[nodiscard]] std::unique_ptr<Chain> chain_of(std::size_t i, const Moves& moves) {
    return std::make_unique<Chain>(moves, memory_of(i).configs, state_.cost, state_.chains[i]);
  }
  [[nodiscard]] Memory& memory_of(std::size_t chain) { return *memories_[chain % memories_.size()]; }

  void begin_anew(const std::vector<SearchStart>& starts) {
    state_.seed = options_.seed;
    state_.rng = Rng(options_.seed).split(0);
    grain(Grain::Repeats).rates = repeat_rates();
    grain(Grain::Operators).rates = options_.flexflow_moves ? flexflow_rates() : first_rates();
    const std::vector<std::vector<std::size_t>> firsts = first_configs(starts);
    const auto chains = static_cast<std::size_t>(std::max(1, options_.chains));
    for (std::size_t i = 0; i < chains; ++i) {
      state_.chains.emplace_back();
      state_.chains.back().rng = Rng(options_.seed).split(i + 1);
      state_.chains.back().current.plan = firsts[i % firsts.size()];
      state_.rung.push_back(i);
    }
  }

  // Where chains begin: at the best start, and where sums of costs are least.
  std::vector<std::vector<std::size_t>> first_configs(const std::vector<SearchStart>& starts) {
    const std::vector<std::size_t> best = best_start(starts);
    Evaluator& evaluator = memories_.front()->evaluator;
    const bool staged = evaluator.contents().options().pipeline.has_value();
    if (!options_.additive_starts || options_.flexflow_moves || staged) return {best};
    std::vector<std::vector<std::size_t>> given;
    for (const SearchStart& start : starts) given.push_back(space_.indices(start.strategy));
    std::vector<ScoredConfigs> starting =
        additive_starts(space_, units_, evaluator, given, best, [this] { return wanted_still(); });
    if (starting.front().evaluation.feasible()) begun_at_ = starting.front();
    std::vector<std::vector<std::size_t>> first;
    for (ScoredConfigs& start : starting) first.push_back(std::move(start.plan));
    return first;
  }

  // Sets what costs are, too.
  std::vector<std::size_t> best_start(const std::vector<SearchStart>& starts) {
    std::vector<Evaluation> scored;
    for (const SearchStart& start : starts)
      scored.push_back(start.evaluation ? *start.evaluation
                                        : memories_.front()->evaluator.evaluate(start.strategy));
    const auto best = std::ranges::min_element(
        scored, {}, [](const Evaluation& e) { return std::tuple(e.overflow, e.time); });
    state_.cost = Cost::with_price_of(best->time, memories_.front()->evaluator.topology().usable_memory());
    return space_.indices(starts[static_cast<std::size_t>(best - scored.begin())].strategy);
  }

  [[nodiscard]] bool has_repeats() const { return units_.size() < space_.num_operators(); }
  [[nodiscard]] const Moves& moves_of(Grain g) const {
    return g == Grain::Repeats ? repeat_moves_ : single_moves_;
  }
  [[nodiscard]] GrainState& grain(Grain g) { return state_.grains[static_cast<std::size_t>(g)]; }
  [[nodiscard]] const GrainState& grain(Grain g) const { return state_.grains[static_cast<std::size_t>(g)]; }

  // The least cost of all states since the chains started.
  [[nodiscard]] double least_cost() const {
    double least = state_.chains.front().lowest;
    for (const ChainState& c : state_.chains) least = c.lowest > 0 ? std::min(least, c.lowest) : least;
    return state_.best.plan.empty() ? least : std::min(least, state_.cost(state_.best.evaluation));
  }

  [[nodiscard]] double temperature(std::size_t rung, double done) const {
    const Cooling& cooling = options_.cooling[static_cast<std::size_t>(state_.cycle.grain)];
    if (options_.flexflow_moves) return least_cost() * cooling.hottest;
    return least_cost() *
           cooling.temperature(grain(state_.cycle.grain).heat, rung, state_.chains.size(), done);
  }

  // A round of a cycle.
  [[nodiscard]] Slice next_slice() const override {
    return {static_cast<std::int64_t>(state_.cycle.chains), kDraws};
  }

  [[nodiscard]] ChainSlice slice_of(std::size_t chain) const {
    const double done = state_.cycle.done(), step = 1 / static_cast<double>(state_.cycle.rounds);
    const std::size_t rung = state_.rung[chain];
    return {kDraws, proposals_of(static_cast<std::int64_t>(rung)), temperature(rung, done),
            grain(state_.cycle.grain).rates, temperature(rung, done + step)};
  }

  void run_slice() override {
    const Bytes most(kMostRemembered.value / static_cast<std::int64_t>(memories_.size()));
    for (const std::unique_ptr<Memory>& memory : memories_)
      threads().execute([&] { memory->evaluator.forget(most); });
    run_chains(hottest_first(), [&](std::size_t i, std::size_t) {
      if (state_.rung[i] >= state_.cycle.chains) return;
      const ScoredConfigs& best = chains_[i]->state().best;
      chains_[i]->run(slice_of(i), [&](std::int64_t proposals, std::int64_t accepted) {
        return count(proposals, accepted, best.plan.empty() ? 0 : best.evaluation.time, static_cast<int>(i));
      });
    });
  }

  // All chains, in the order to begin them in: hot ones take longest, and no thread should wait long for the
  // last one.
  [[nodiscard]] std::vector<std::size_t> hottest_first() const {
    std::vector<std::size_t> chain(state_.rung.size());
    for (std::size_t i = 0; i < chain.size(); ++i) chain[chain.size() - 1 - state_.rung[i]] = i;
    return chain;
  }

  void collect() override {
    state_.proposals = state_.accepted = 0;
    for (std::size_t i = 0; i < chains_.size(); ++i) {
      if (chains_[i]) state_.chains[i] = chains_[i]->state();
      state_.proposals += state_.chains[i].proposals;
      state_.accepted += state_.chains[i].accepted;
    }
    state_.seconds = seconds();
    for (std::size_t i = 0; i < chains_.size(); ++i) {
      const ScoredConfigs& found = state_.chains[i].best;
      if (found.plan.empty()) continue;
      ScoredConfigs& of_grain = grain(state_.cycle.grain).best;
      if (of_grain.plan.empty() || found.evaluation.time < of_grain.evaluation.time) of_grain = found;
      if (!state_.best.plan.empty() && found.evaluation.time >= state_.best.evaluation.time) continue;
      state_.best = found;
      state_.found_by = "mcmc";
      note_best(found.evaluation.time, static_cast<int>(i));
    }
  }

  // Repeats first, and as long as they help much; then the grain that has had less.
  [[nodiscard]] Grain next_grain() const {
    if (options_.flexflow_moves || !has_repeats()) return Grain::Operators;
    if (state_.cycle.chains == 0) return Grain::Repeats;
    if (grain(Grain::Repeats).cycles < kFirstCycles) return Grain::Repeats;
    if (state_.cycle.cost_before - least_cost() >= kLargeGain * state_.cycle.cost_before)
      return state_.cycle.grain;
    return grain(Grain::Operators).effort < grain(Grain::Repeats).effort ? Grain::Operators : Grain::Repeats;
  }

  bool begin_slice() override {
    if (!state_.cycle.over()) return true;
    const SearchState before = state_;
    try {
      begin_cycle();
    } catch (const OutOfTime&) {
      state_ = before;
      return false;
    }
    return true;
  }

  void begin_cycle() {
    const double before = least_cost();
    const Grain now = next_grain();
    state_.cycle = nth_cycle(now, grain(now).cycles, chains_.size());
    if (options_.flexflow_moves) state_.cycle.rounds = kMostInSearches;
    state_.cycle.cost_before = before;
    std::vector<std::vector<std::size_t>> first(state_.cycle.chains);
    for (std::size_t i = 0; i < first.size(); ++i) first[i] = first_of_cycle(i);
    std::iota(state_.rung.begin(), state_.rung.end(), std::size_t{0});
    threads().run(hottest_first(), [&](std::size_t i, std::size_t) {
      if (i >= first.size()) return;
      restart(i, std::move(first[i]));
      const double far = state_.chains[i].proposals == 0 ? kFarAtFirst : kFarBehind;
      if (!state_.best.plan.empty() && chains_[i]->state().lowest > far * before)
        restart(i, best_of(now).plan);
    });
    for (std::size_t i = 0; i < first.size(); ++i) {
      state_.chains[i] = chains_[i]->state();
      state_.cycle.begun.push_back(state_.cost(state_.chains[i].current.evaluation));
    }
  }

  [[nodiscard]] const ScoredConfigs& best_of(Grain g) const {
    const ScoredConfigs& alike = grain(Grain::Repeats).best;
    return g == Grain::Operators || alike.plan.empty() ? state_.best : alike;
  }

  // Returns where the chain begins the cycle; it begins its first one at its own start. Single operators may
  // also go on from the best with equal repeats, which may be a newer valley. After fruitless cycles the
  // hotter half begins anywhere.
  std::vector<std::size_t> first_of_cycle(std::size_t i) {
    const Grain now = state_.cycle.grain;
    const bool from_alike = state_.rng.below(2) == 0, own = state_.rng.below(2) == 0;
    const bool first = grain(Grain::Repeats).cycles + grain(Grain::Operators).cycles == 0;
    const ScoredConfigs& best = best_of(from_alike ? Grain::Repeats : now);
    const GrainState& mine = grain(now);
    std::vector<std::size_t> configs = state_.chains[i].current.plan;
    if (state_.chains[i].proposals == 0) return configs;
    if (mine.heat >= kFruitless && 2 * i >= state_.cycle.chains) {
      configs = random_configs(space_, single_moves_.styles(), state_.rng);
    } else if (!first && own && !mine.last.empty()) {
      configs = mine.last[state_.rng.below(mine.last.size())];
    } else if (!first) {
      configs = best.plan.empty() ? random_configs(space_, single_moves_.styles(), state_.rng) : best.plan;
    }
    return configs;
  }

  void restart(std::size_t i, std::vector<std::size_t> configs) {
    const Grain now = state_.cycle.grain;
    if (now == Grain::Repeats) make_alike(space_.candidates(), units_, configs);
    if (!chains_[i]) {
      state_.chains[i].current.plan = configs;
      chains_[i] = chain_of(i, moves_of(now));
    }
    chains_[i]->restart(moves_of(now), std::move(configs));
  }

  void end_slice() override {
    ++state_.rounds;
    ++state_.cycle.round;
    if (state_.cycle.over()) {
      end_cycle();
    } else {
      exchange();
    }
  }

  [[nodiscard]] std::vector<double> ended_by_rung() const {
    std::vector<double> ended(state_.cycle.chains);
    for (std::size_t i = 0; i < chains_.size(); ++i) {
      if (state_.rung[i] < ended.size())
        ended[state_.rung[i]] = state_.cost(state_.chains[i].current.evaluation);
    }
    return ended;
  }

  void end_cycle() {
    GrainState& mine = grain(state_.cycle.grain);
    std::vector<std::pair<double, std::size_t>> ended;
    for (std::size_t i = 0; i < chains_.size(); ++i) {
      if (state_.rung[i] < state_.cycle.chains)
        ended.emplace_back(state_.cost(state_.chains[i].current.evaluation), i);
    }
    std::ranges::sort(ended);
    mine.last.clear();
    for (std::size_t k = 0; 2 * k < ended.size(); ++k)
      mine.last.push_back(state_.chains[ended[k].second].current.plan);
    mine.heat =
        next_heat(mine.heat, state_.cycle.begun, ended_by_rung(), least_cost() < state_.cycle.cost_before);
    mine.effort += effort_of(state_.cycle);
    if (++mine.cycles > kBurnInCycles) return;
    for (const auto& [cost, i] : ended) {
      for (std::size_t k = 0; k < kMoveKinds; ++k) {
        mine.counts.proposed[k] += state_.chains[i].counts.proposed[k];
        mine.counts.accepted[k] += state_.chains[i].counts.accepted[k];
      }
    }
    mine.rates = adapted(state_.cycle.grain == Grain::Repeats ? repeat_rates() : first_rates(), mine.counts);
  }

  // Returns the draws of a cycle, each counted as so many draws of single operators as it costs: by
  // experience the square root of how many operators change together.
  [[nodiscard]] double effort_of(const Cycle& cycle) const {
    const double together = static_cast<double>(space_.num_operators()) / static_cast<double>(units_.size());
    return static_cast<double>(kDraws * cycle.rounds) * static_cast<double>(cycle.chains) *
           (cycle.grain == Grain::Repeats ? std::sqrt(together) : 1);
  }

  // Even and odd pairs of neighbours in turn.
  void exchange() {
    std::vector<std::size_t> chain(state_.rung.size());
    for (std::size_t i = 0; i < chain.size(); ++i) chain[state_.rung[i]] = i;
    const double done = state_.cycle.done();
    for (auto r = static_cast<std::size_t>(state_.rounds % 2); r + 1 < state_.cycle.chains; r += 2) {
      const std::size_t cold = chain[r], hot = chain[r + 1];
      const double gap = state_.cost(state_.chains[cold].current.evaluation) -
                         state_.cost(state_.chains[hot].current.evaluation);
      const double exponent = (1 / temperature(r, done) - 1 / temperature(r + 1, done)) * gap;
      if (state_.rng.uniform() < std::exp(std::min(0.0, exponent)))
        std::swap(state_.rung[cold], state_.rung[hot]);
    }
  }

  void keep_state(bool last) override {
    if (options_.keep) options_.keep(state_, last);
  }

  SearchState& state_;
  const ConfigSpace& space_;
  MoveUnits units_;  // of repeats
  Moves single_moves_, repeat_moves_;
  const McmcOptions& options_;
  std::vector<std::unique_ptr<Memory>> memories_;
  std::vector<std::unique_ptr<Chain>> chains_;
  std::optional<ScoredConfigs> begun_at_;  // the best start, if it fits: all there is before chains begin
};

}  // namespace

SearchOutcome mcmc(const OperatorGraph& graph, const CostModel& costs, const PlanOptions& plan_options,
                   const CandidateSet& candidates, const std::vector<SearchStart>& starts,
                   const McmcOptions& options, const ProgressCallback& progress) {
  std::vector<Strategy> strategies;
  for (const SearchStart& s : starts) strategies.push_back(s.strategy);
  const ConfigSpace space(candidates, strategies);
  try {
    SearchState state = options.resume.value_or(SearchState());
    return Tempering(state, graph, costs, plan_options, space, options, progress).run(starts);
  } catch (const OutOfTime&) {  // before anything was begun
    return {};
  }
}

}  // namespace pipesim
