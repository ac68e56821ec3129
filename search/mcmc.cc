#include "search/mcmc.h"

#include <tbb/global_control.h>
#include <tbb/parallel_for.h>
#include <tbb/task_arena.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <memory>
#include <mutex>

#include "sim/base/errors.h"

namespace pipesim {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::int64_t kDraws = 64;            // of a chain in a round, on average
constexpr std::int64_t kBurnInRounds = 48;     // while the rates adapt
constexpr std::int64_t kAdaptEvery = 8;        // rounds
constexpr std::int64_t kMostStale = 4000;      // proposals that a chain may be without getting lower
constexpr Bytes kMostRemembered(250'000'000);  // by all workers, of configs, layouts and transfers
constexpr std::int64_t kMostIdleRounds = 50;   // a space of one strategy has nothing to propose

Bytes all_memory(const Topology& topology) {
  Bytes sum;
  for (std::size_t d = 0; d < topology.num_devices(); ++d) sum += topology.kind(DeviceId(d)).memory;
  return sum;
}

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

// What one thread works with. Chains are dealt out to workers for good, so that what is remembered of configs
// and layouts is shared by the chains of a worker.
struct Worker {
  Worker(const OperatorGraph& graph, const CostModel& costs, const PlanOptions& options,
         const ConfigSpace& space)
      : evaluator(graph, costs, options), configs(space, evaluator) {}
  Evaluator evaluator;
  BoundConfigs configs;
};

class Tempering {
 public:
  Tempering(const OperatorGraph& graph, const CostModel& costs, const PlanOptions& plan_options,
            const ConfigSpace& space, const McmcOptions& options, const ProgressCallback& progress)
      : space_(space), moves_(space), options_(options), progress_(progress) {
    const int workers = std::max(1, options.threads);
    for (int i = 0; i < workers; ++i)
      workers_.push_back(std::make_unique<Worker>(graph, costs, plan_options, space));
  }

  void begin(const std::vector<SearchStart>& starts) {
    if (options_.resume) {
      state_ = *options_.resume;
    } else {
      begin_anew(starts);
    }
    for (std::size_t i = 0; i < state_.chains.size(); ++i)
      chains_.push_back(std::make_unique<Chain>(moves_, worker_of(i).configs, state_.cost, state_.chains[i]));
    seconds_before_ = state_.seconds;
    shown_.proposals = state_.proposals;
    shown_.accepted = state_.accepted;
    if (!options_.resume) collect();
  }

  void run() {
    std::int64_t idle = 0;
    while (!stopped_ && !spent() && idle < kMostIdleRounds) {
      keep(false);
      const std::int64_t before = state_.proposals;
      run_chains();
      if (stopped_) break;
      collect();
      ++state_.rounds;
      adapt();
      exchange();
      restart_stale();
      idle = state_.proposals == before ? idle + 1 : 0;
    }
    if (stopped_) return finish_early();
    keep(true);
  }

  SearchOutcome outcome() {
    SearchOutcome result;
    if (!state_.best.configs.empty())
      result.best = ScoredStrategy{space_.strategy(state_.best.configs), state_.best.evaluation};
    result.found_by = state_.found_by;
    result.proposals = state_.proposals;
    result.accepted = state_.accepted;
    result.seconds = seconds();
    result.history = state_.history;
    return result;
  }

 private:
  [[nodiscard]] Worker& worker_of(std::size_t chain) { return *workers_[chain % workers_.size()]; }
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
    state_.rates = options_.flexflow_moves ? flexflow_rates() : first_rates();
    std::vector<std::vector<std::size_t>> first = ordered(starts);
    const std::size_t chains = static_cast<std::size_t>(std::max(1, options_.chains));
    for (std::size_t i = 0; i < chains; ++i) {
      state_.chains.emplace_back();
      state_.chains.back().rng = Rng(options_.seed).split(i + 1);
      // The cold half from the best start, the others from all in turn.
      const std::size_t start = i < (chains + 1) / 2 ? 0 : (i - (chains + 1) / 2) % first.size();
      state_.chains.back().current.configs = first[start];
      state_.rung.push_back(i);
    }
  }

  // The starts' configs, the best first; sets what costs are.
  std::vector<std::vector<std::size_t>> ordered(const std::vector<SearchStart>& starts) {
    std::vector<std::pair<Evaluation, std::size_t>> scored;
    for (std::size_t i = 0; i < starts.size(); ++i)
      scored.emplace_back(workers_.front()->evaluator.evaluate(starts[i].strategy), i);
    const auto better = [](const auto& a, const auto& b) {
      return std::tuple(a.first.overflow, a.first.time, a.second) <
             std::tuple(b.first.overflow, b.first.time, b.second);
    };
    std::ranges::sort(scored, better);
    constexpr double kTolerableShare = 0.01;
    const auto memory = static_cast<double>(all_memory(workers_.front()->evaluator.topology()).value);
    state_.cost.overflow_price = static_cast<double>(scored.front().first.time) / (kTolerableShare * memory);
    std::vector<std::vector<std::size_t>> configs;
    for (const auto& [evaluation, i] : scored) configs.push_back(space_.indices(starts[i].strategy));
    return configs;
  }

  // Relative to the least cost that any chain has met.
  [[nodiscard]] double temperature(std::size_t rung) const {
    double scale = state_.chains.front().lowest;
    for (const ChainState& c : state_.chains) scale = std::min(scale, c.lowest);
    if (!state_.best.configs.empty()) scale = std::min(scale, state_.cost(state_.best.evaluation));
    const double last = static_cast<double>(state_.chains.size()) - 1;
    if (last == 0) return scale * (options_.flexflow_moves ? options_.hottest : options_.coldest);
    return scale * options_.coldest *
           std::pow(options_.hottest / options_.coldest, static_cast<double>(rung) / last);
  }

  [[nodiscard]] ChainSlice slice_of(std::size_t chain) const {
    const std::int64_t mine = draws(chain), left = options_.budget.proposals - state_.proposals;
    ChainSlice slice{mine, mine, temperature(state_.rung[chain]), state_.rates};
    std::int64_t before = 0, all = 0;
    for (std::size_t i = 0; i < chains_.size(); ++i) {
      if (i == chain) before = all;
      all += draws(i);
    }
    if (options_.budget.proposals > 0 && left < all)
      slice.proposals = left * (before + mine) / all - left * before / all;
    return slice;
  }

  // Of a round: from twice the mean for the coldest to half of it for the hottest, in equal ratios.
  [[nodiscard]] std::int64_t draws(std::size_t chain) const {
    const double last = static_cast<double>(state_.rung.size()) - 1;
    if (last == 0) return kDraws;
    return std::lround(2 * kDraws * std::pow(0.25, static_cast<double>(state_.rung[chain]) / last));
  }

  void run_chains() {
    std::vector<ChainSlice> slices;
    for (std::size_t i = 0; i < chains_.size(); ++i) slices.push_back(slice_of(i));
    const auto run_worker = [&](std::size_t w) {
      workers_[w]->evaluator.forget(
          Bytes(kMostRemembered.value / static_cast<std::int64_t>(workers_.size())));
      for (std::size_t i = w; i < chains_.size(); i += workers_.size()) {
        chains_[i]->run(slices[i],
                        [&](auto proposals, auto accepted) { return note(i, proposals, accepted); });
      }
    };
    if (workers_.size() == 1) return run_worker(0);
    const tbb::global_control allowed(tbb::global_control::max_allowed_parallelism, workers_.size());
    arena_.initialize(static_cast<int>(workers_.size()));
    arena_.execute([&] { tbb::parallel_for(std::size_t{0}, workers_.size(), run_worker); });
    const std::scoped_lock lock(mutex_);  // ThreadSanitizer does not see oneTBB wait for its tasks
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
    shown_.seconds = seconds();
    if (progress_ && !progress_(shown_)) stopped_ = true;
    if (options_.budget.seconds > 0 && shown_.seconds >= options_.budget.seconds) stopped_ = true;
    return !stopped_;
  }

  // What the chains found, in their order.
  void collect() {
    state_.proposals = state_.accepted = 0;
    for (std::size_t i = 0; i < chains_.size(); ++i) {
      state_.chains[i] = chains_[i]->state();
      state_.proposals += state_.chains[i].proposals;
      state_.accepted += state_.chains[i].accepted;
    }
    state_.seconds = seconds();
    for (std::size_t i = 0; i < chains_.size(); ++i) {
      const ScoredState& found = state_.chains[i].best;
      if (found.configs.empty()) continue;
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

  void adapt() {
    if (options_.flexflow_moves || state_.rounds > kBurnInRounds || state_.rounds % kAdaptEvery != 0) return;
    MoveCounts counts;
    for (const ChainState& c : state_.chains) {
      for (std::size_t k = 0; k < kMoveKinds; ++k) {
        counts.proposed[k] += c.counts.proposed[k];
        counts.accepted[k] += c.counts.accepted[k];
      }
    }
    state_.rates = adapted(first_rates(), counts);
  }

  // Even and odd pairs of neighbours in turn.
  void exchange() {
    std::vector<std::size_t> chain(state_.rung.size());
    for (std::size_t i = 0; i < chain.size(); ++i) chain[state_.rung[i]] = i;
    for (auto r = static_cast<std::size_t>(state_.rounds % 2); r + 1 < chain.size(); r += 2) {
      const std::size_t cold = chain[r], hot = chain[r + 1];
      const double gap = state_.cost(state_.chains[cold].current.evaluation) -
                         state_.cost(state_.chains[hot].current.evaluation);
      const double exponent = (1 / temperature(r) - 1 / temperature(r + 1)) * gap;
      if (state_.rng.uniform() < std::exp(std::min(0.0, exponent)))
        std::swap(state_.rung[cold], state_.rung[hot]);
    }
  }

  void restart_stale() {
    for (std::size_t i = 0; i < chains_.size() && !options_.flexflow_moves; ++i) {
      if (state_.chains[i].stale < kMostStale) continue;
      chains_[i]->restart(perturbed_best());
      state_.chains[i] = chains_[i]->state();
    }
  }

  // A few proposals, whatever they cost.
  std::vector<std::size_t> perturbed_best() {
    if (state_.best.configs.empty()) return random_configs(space_, moves_.styles(), state_.rng);
    constexpr std::uint64_t kMostChanges = 6;
    std::vector<std::size_t> configs = state_.best.configs;
    Proposal proposal;
    for (std::uint64_t n = 1 + state_.rng.below(kMostChanges); n > 0; --n) {
      moves_.propose(configs, state_.rates, state_.rng, proposal);
      for (const ConfigChange& c : proposal.changes) configs[c.op.index()] = c.index;
    }
    return configs;
  }

  void keep(bool last) {
    if (options_.keep) options_.keep(state_, last);
  }

  // In the middle of a round: what it found counts, but nothing can go on from there.
  void finish_early() {
    keep(true);
    collect();
  }

  const ConfigSpace& space_;
  Moves moves_;
  McmcOptions options_;
  const ProgressCallback& progress_;
  std::vector<std::unique_ptr<Worker>> workers_;
  tbb::task_arena arena_;
  std::vector<std::unique_ptr<Chain>> chains_;
  SearchState state_;
  Clock::time_point began_ = Clock::now();
  double seconds_before_ = 0;
  std::mutex mutex_;
  SearchProgress shown_;
  bool stopped_ = false;
};

}  // namespace

SearchOutcome mcmc(const OperatorGraph& graph, const CostModel& costs, const PlanOptions& plan_options,
                   const CandidateSet& candidates, const std::vector<SearchStart>& starts,
                   const McmcOptions& options, const ProgressCallback& progress) {
  std::vector<Strategy> strategies;
  for (const SearchStart& s : starts) strategies.push_back(s.strategy);
  const ConfigSpace space(candidates, strategies);
  Tempering tempering(graph, costs, plan_options, space, options, progress);
  tempering.begin(starts);
  tempering.run();
  return tempering.outcome();
}

}  // namespace pipesim
