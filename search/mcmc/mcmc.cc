#include "search/mcmc/mcmc.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <memory>
#include <mutex>
#include <numeric>

#include "search/additive/additive_starts.h"
#include "search/mcmc/chain_threads.h"
#include "search/search_json.h"
#include "sim/base/deadline.h"
#include "sim/base/errors.h"

namespace pipesim {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::int64_t kDraws = 256;           // of a chain in a round
constexpr std::int64_t kBurnInCycles = 4;      // of a grain, while its rates adapt
constexpr std::int64_t kFirstCycles = 3;       // of repeats
constexpr double kLargeGain = 0.01;            // of the cost in a cycle: the grain stays
constexpr double kFruitless = 10;              // heat after a cycle that gained nothing
constexpr double kFarBehind = 2;               // of the least cost: nothing to begin a cycle at
constexpr double kFarAtFirst = 1.2;            // the same of a chain's own start
constexpr Bytes kMostRemembered(250'000'000);  // of configs, layouts and transfers, by all chains
constexpr std::int64_t kMostIdleRounds = 50;   // a space of one strategy has nothing to propose

// All operators split and placed like one of them, drawn at random, where they can be; the others anyhow.
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

class Tempering {
 public:
  Tempering(const OperatorGraph& graph, const CostModel& costs, const PlanOptions& plan_options,
            const ConfigSpace& space, const McmcOptions& options, const ProgressCallback& progress)
      : space_(space),
        units_(repeated_operators(space.candidates())),
        single_moves_(space),
        repeat_moves_(space, units_),
        options_(checked(options)),
        progress_(progress),
        threads_(threads()) {
    // While one evaluates in full, nothing else can be done beside.
    const std::size_t memories = evaluates_in_full(plan_options) ? threads() : 1;
    for (std::size_t i = 0; i < memories; ++i)
      memories_.push_back(std::make_unique<Memory>(graph, costs, plan_options, space));
  }

  // False where there was no time for it.
  bool begin(const std::vector<SearchStart>& starts) {
    try {
      begin_in_time(starts);
    } catch (const OutOfTime&) {
      return false;
    }
    return true;
  }

  void begin_in_time(const std::vector<SearchStart>& starts) {
    if (options_.resume) {
      state_ = *options_.resume;
    } else {
      begin_anew(starts);
    }
    chains_.resize(state_.chains.size());
    const std::size_t running = std::max<std::size_t>(1, state_.cycle.chains);
    on_all_threads([&](std::size_t i) {
      if (state_.rung[i] < running) chains_[i] = chain_of(i, moves_of(state_.cycle.grain));
    });
    seconds_before_ = state_.seconds;
    shown_.proposals = state_.proposals;
    shown_.accepted = state_.accepted;
    if (!options_.resume) collect();
  }

  void run() {
    std::int64_t idle = 0;
    while (!stopped_ && !spent() && idle < kMostIdleRounds) {
      if (state_.cycle.over() && !begin_cycle()) return keep(true);
      keep(!has_whole_round());
      const std::int64_t before = state_.proposals;
      run_chains();
      if (stopped_) break;
      collect();
      ++state_.rounds;
      ++state_.cycle.round;
      if (state_.cycle.over()) {
        end_cycle();
      } else {
        exchange();
      }
      idle = state_.proposals == before ? idle + 1 : 0;
    }
    if (stopped_) return finish_early();
    keep(true);
  }

  SearchOutcome outcome() {
    SearchOutcome result;
    if (!state_.best.configs.empty()) {
      result.best = ScoredStrategy{space_.strategy(state_.best.configs), state_.best.evaluation};
    } else if (begun_at_) {
      result.best = ScoredStrategy{space_.strategy(begun_at_->configs), begun_at_->evaluation};
    }
    result.found_by = result.best ? "mcmc" : "";
    result.proposals = state_.proposals;
    result.accepted = state_.accepted;
    result.seconds = seconds();
    result.history = state_.history;
    return result;
  }

 private:
  static McmcOptions checked(McmcOptions options) {
    options.threads = std::max(1, options.threads);
    options.chains = std::max(1, options.chains);
    return options;
  }
  [[nodiscard]] std::size_t threads() const { return static_cast<std::size_t>(options_.threads); }
  // A chain takes time and memory from when it first runs.
  [[nodiscard]] std::unique_ptr<Chain> chain_of(std::size_t i, const Moves& moves) {
    return std::make_unique<Chain>(moves, memory_of(i).configs, state_.cost, state_.chains[i]);
  }
  [[nodiscard]] Memory& memory_of(std::size_t chain) { return *memories_[chain % memories_.size()]; }
  [[nodiscard]] double seconds() const {
    return seconds_before_ + std::chrono::duration<double>(Clock::now() - began_).count();
  }
  [[nodiscard]] bool spent() const {
    const SearchBudget& b = options_.budget;
    return (b.proposals > 0 && state_.proposals >= b.proposals) || (b.seconds > 0 && seconds() >= b.seconds);
  }

  void begin_anew(const std::vector<SearchStart>& starts) {
    state_.seed = options_.seed;
    state_.rng = Rng(options_.seed).split(0);
    grain(Grain::Repeats).rates = repeat_rates();
    grain(Grain::Operators).rates = options_.flexflow_moves ? flexflow_rates() : first_rates();
    const std::vector<std::vector<std::size_t>> firsts = first_configs(starts);
    const std::size_t chains = static_cast<std::size_t>(options_.chains);
    for (std::size_t i = 0; i < chains; ++i) {
      state_.chains.emplace_back();
      state_.chains.back().rng = Rng(options_.seed).split(i + 1);
      state_.chains.back().current.configs = firsts[i % firsts.size()];
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
    std::vector<AdditiveStart> starting =
        additive_starts(space_, units_, evaluator, given, best, [this] { return wanted_still(); });
    if (starting.front().evaluation.feasible()) begun_at_ = starting.front();
    std::vector<std::vector<std::size_t>> first;
    for (AdditiveStart& start : starting) first.push_back(std::move(start.configs));
    kept_last_ |= stopped_;  // what began with fewer starts is no search to go on with
    return first;
  }

  // Sets what costs are, too.
  std::vector<std::size_t> best_start(const std::vector<SearchStart>& starts) {
    std::vector<Evaluation> scored;
    for (const SearchStart& start : starts)
      scored.push_back(start.evaluation ? *start.evaluation
                                        : memories_.front()->evaluator.score(start.strategy));
    const auto best = std::ranges::min_element(
        scored, {}, [](const Evaluation& e) { return std::tuple(e.overflow, e.time); });
    constexpr double kTolerableShare = 0.01;
    const auto memory = static_cast<double>(memories_.front()->evaluator.topology().usable_memory().value);
    state_.cost.overflow_price = static_cast<double>(best->time) / (kTolerableShare * memory);
    return space_.indices(starts[static_cast<std::size_t>(best - scored.begin())].strategy);
  }

  [[nodiscard]] bool has_repeats() const { return units_.size() < space_.num_operators(); }
  [[nodiscard]] const Moves& moves_of(Grain g) const {
    return g == Grain::Repeats ? repeat_moves_ : single_moves_;
  }
  [[nodiscard]] GrainState& grain(Grain g) { return state_.grains[static_cast<std::size_t>(g)]; }
  [[nodiscard]] const GrainState& grain(Grain g) const { return state_.grains[static_cast<std::size_t>(g)]; }

  // Of all that were met since the chains started.
  [[nodiscard]] double least_cost() const {
    double least = state_.chains.front().lowest;
    for (const ChainState& c : state_.chains) least = c.lowest > 0 ? std::min(least, c.lowest) : least;
    return state_.best.configs.empty() ? least : std::min(least, state_.cost(state_.best.evaluation));
  }

  [[nodiscard]] double temperature(std::size_t rung, double done) const {
    const Cooling& cooling = options_.cooling[static_cast<std::size_t>(state_.cycle.grain)];
    if (options_.flexflow_moves) return least_cost() * cooling.hottest;
    return least_cost() *
           cooling.temperature(grain(state_.cycle.grain).heat, rung, state_.chains.size(), done);
  }

  [[nodiscard]] ChainSlice slice_of(std::size_t chain) const {
    const std::int64_t mine = draws(chain), left = options_.budget.proposals - state_.proposals;
    const double done = state_.cycle.done(), step = 1 / static_cast<double>(state_.cycle.rounds);
    const std::size_t rung = state_.rung[chain];
    ChainSlice slice{mine, mine, temperature(rung, done), grain(state_.cycle.grain).rates,
                     temperature(rung, done + step)};
    const auto all = static_cast<std::int64_t>(state_.cycle.chains) * kDraws;
    const auto before = static_cast<std::int64_t>(rung) * kDraws;
    if (!has_whole_round()) slice.proposals = left * (before + mine) / all - left * before / all;
    return slice;
  }

  // The budget in proposals allows the next round as it is.
  [[nodiscard]] bool has_whole_round() const {
    const auto all = static_cast<std::int64_t>(state_.cycle.chains) * kDraws;
    return options_.budget.proposals == 0 || options_.budget.proposals - state_.proposals >= all;
  }

  [[nodiscard]] std::int64_t draws(std::size_t chain) const {
    return state_.rung[chain] < state_.cycle.chains ? kDraws : 0;
  }

  void run_chains() {
    std::vector<ChainSlice> slices;
    for (std::size_t i = 0; i < chains_.size(); ++i) slices.push_back(slice_of(i));
    const Bytes most(kMostRemembered.value / static_cast<std::int64_t>(memories_.size()));
    for (const std::unique_ptr<Memory>& memory : memories_)
      threads_.execute([&] { memory->evaluator.forget(most); });
    on_all_threads([&](std::size_t i) {
      if (slices[i].draws == 0) return;
      try {
        chains_[i]->run(slices[i],
                        [&](auto proposals, auto accepted) { return note(i, proposals, accepted); });
      } catch (const OutOfTime&) {
        const std::scoped_lock lock(mutex_);
        stopped_ = true;
      }
    });
  }

  // For each chain, the hottest first: they take longest, and no thread should wait long for the last one.
  template <class Do>
  void on_all_threads(const Do& run) {
    std::vector<std::size_t> chain(state_.rung.size());
    for (std::size_t i = 0; i < chain.size(); ++i) chain[chain.size() - 1 - state_.rung[i]] = i;
    threads_.run(chain, [&](std::size_t i, std::size_t) { run(i); });
  }

  // Called by all threads.
  bool note(std::size_t chain, std::int64_t proposals, std::int64_t accepted) {
    const std::scoped_lock lock(mutex_);
    shown_.proposals += proposals;
    shown_.accepted += accepted;
    const ScoredState& best = chains_[chain]->state().best;
    if (!best.configs.empty() && (shown_.best == 0 || best.evaluation.time < shown_.best)) {
      shown_.best = best.evaluation.time;
      shown_.chain = static_cast<int>(chain);
    }
    return wanted_still();
  }

  // Whoever runs the search and its budget want more of it.
  bool wanted_still() {
    shown_.seconds = seconds();
    if (progress_ && !progress_(shown_)) stopped_ = true;
    if (options_.budget.seconds > 0 && shown_.seconds >= options_.budget.seconds) stopped_ = true;
    return !stopped_;
  }

  // What the chains found, in their order.
  void collect() {
    state_.proposals = state_.accepted = 0;
    for (std::size_t i = 0; i < chains_.size(); ++i) {
      if (chains_[i]) state_.chains[i] = chains_[i]->state();
      state_.proposals += state_.chains[i].proposals;
      state_.accepted += state_.chains[i].accepted;
    }
    state_.seconds = seconds();
    for (std::size_t i = 0; i < chains_.size(); ++i) {
      const ScoredState& found = state_.chains[i].best;
      if (found.configs.empty()) continue;
      ScoredState& of_grain = grain(state_.cycle.grain).best;
      if (of_grain.configs.empty() || found.evaluation.time < of_grain.evaluation.time) of_grain = found;
      if (!state_.best.configs.empty() && found.evaluation.time >= state_.best.evaluation.time) continue;
      state_.best = found;
      state_.found_by = "mcmc";
      const SearchImprovement now{state_.seconds, state_.proposals, found.evaluation.time,
                                  static_cast<int>(i)};
      if (!state_.history.empty() && state_.history.back().proposals == now.proposals)
        state_.history.pop_back();
      state_.history.push_back(now);
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

  // False where there was no time for it; nothing has changed then.
  bool begin_cycle() {
    const SearchState before = state_;
    try {
      begin_cycle_in_time();
    } catch (const OutOfTime&) {
      state_ = before;
      return false;
    }
    return true;
  }

  void begin_cycle_in_time() {
    const double before = least_cost();
    const Grain now = next_grain();
    state_.cycle = nth_cycle(now, grain(now).cycles, chains_.size());
    if (options_.flexflow_moves) state_.cycle.rounds = kMostInSearches;
    state_.cycle.cost_before = before;
    std::vector<std::vector<std::size_t>> first(state_.cycle.chains);
    for (std::size_t i = 0; i < first.size(); ++i) first[i] = first_of_cycle(i);
    std::iota(state_.rung.begin(), state_.rung.end(), std::size_t{0});
    on_all_threads([&](std::size_t i) {
      if (i >= first.size()) return;
      restart(i, std::move(first[i]));
      const double far = state_.chains[i].proposals == 0 ? kFarAtFirst : kFarBehind;
      if (!state_.best.configs.empty() && chains_[i]->state().lowest > far * before)
        restart(i, best_of(now).configs);
    });
    for (std::size_t i = 0; i < first.size(); ++i) {
      state_.chains[i] = chains_[i]->state();
      state_.cycle.begun.push_back(state_.cost(state_.chains[i].current.evaluation));
    }
  }

  [[nodiscard]] const ScoredState& best_of(Grain g) const {
    const ScoredState& alike = grain(Grain::Repeats).best;
    return g == Grain::Operators || alike.configs.empty() ? state_.best : alike;
  }

  // Where the chain begins the cycle: its first one at its own start. Single operators also go on from the
  // best with equal repeats, which may be a newer valley. After fruitless ones the hotter half begins
  // anywhere.
  std::vector<std::size_t> first_of_cycle(std::size_t i) {
    const Grain now = state_.cycle.grain;
    const bool from_alike = state_.rng.below(2) == 0, own = state_.rng.below(2) == 0;
    const bool first = grain(Grain::Repeats).cycles + grain(Grain::Operators).cycles == 0;
    const ScoredState& best = best_of(from_alike ? Grain::Repeats : now);
    const GrainState& mine = grain(now);
    std::vector<std::size_t> configs = state_.chains[i].current.configs;
    if (state_.chains[i].proposals == 0) return configs;
    if (mine.heat >= kFruitless && 2 * i >= state_.cycle.chains) {
      configs = random_configs(space_, single_moves_.styles(), state_.rng);
    } else if (!first && own && !mine.last.empty()) {
      configs = mine.last[state_.rng.below(mine.last.size())];
    } else if (!first) {
      configs =
          best.configs.empty() ? random_configs(space_, single_moves_.styles(), state_.rng) : best.configs;
    }
    return configs;
  }

  void restart(std::size_t i, std::vector<std::size_t> configs) {
    const Grain now = state_.cycle.grain;
    if (now == Grain::Repeats) make_alike(space_.candidates(), units_, configs);
    if (!chains_[i]) {
      state_.chains[i].current.configs = configs;
      chains_[i] = chain_of(i, moves_of(now));
    }
    chains_[i]->restart(moves_of(now), std::move(configs));
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
      mine.last.push_back(state_.chains[ended[k].second].current.configs);
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

  // Draws, as often as one costs those of single operators: by experience the square root of how many
  // operators change together.
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

  // A larger budget must go on from before the first round that this one cuts short: that is the last to
  // keep.
  void keep(bool last) {
    if (options_.keep && !kept_last_) options_.keep(state_, last);
    kept_last_ |= last;
  }

  // In the middle of a round: what it found counts, but nothing can go on from there.
  void finish_early() {
    keep(true);
    collect();
  }

  const ConfigSpace& space_;
  MoveUnits units_;  // of repeats
  Moves single_moves_, repeat_moves_;
  McmcOptions options_;
  const ProgressCallback& progress_;
  std::vector<std::unique_ptr<Memory>> memories_;
  ChainThreads threads_;
  std::vector<std::unique_ptr<Chain>> chains_;
  std::optional<AdditiveStart> begun_at_;  // the best start, if it fits: all there is before chains begin
  SearchState state_;
  Clock::time_point began_ = Clock::now();
  double seconds_before_ = 0;
  std::mutex mutex_;
  SearchProgress shown_;
  bool stopped_ = false;
  bool kept_last_ = false;
};

}  // namespace

SearchOutcome mcmc(const OperatorGraph& graph, const CostModel& costs, const PlanOptions& plan_options,
                   const CandidateSet& candidates, const std::vector<SearchStart>& starts,
                   const McmcOptions& options, const ProgressCallback& progress) {
  std::vector<Strategy> strategies;
  for (const SearchStart& s : starts) strategies.push_back(s.strategy);
  const ConfigSpace space(candidates, strategies);
  try {
    Tempering tempering(graph, costs, plan_options, space, options, progress);
    if (tempering.begin(starts)) tempering.run();
    return tempering.outcome();
  } catch (const OutOfTime&) {  // before anything was begun
    return {};
  }
}

}  // namespace pipesim
