#include <benchmark/benchmark.h>

#include <algorithm>
#include <memory>
#include <string>

#include "models/zoo/zoo.h"
#include "search/baselines/baselines.h"
#include "search/mcmc/chain.h"
#include "search/mcmc/mcmc.h"
#include "topologies/presets/presets.h"

namespace pipesim {
namespace {

/// A model on the machine of FlexFlow's stand-alone simulator with 64 samples a device, and the proposals a
/// second that one core should make of it: proposal, edited graph, exact time, accepted or not.
struct Case {
  const char* model;
  const char* topology;
  double goal;
};
constexpr Case kCases[] = {{"alexnet:batch=512", "flexflow-sim:2", 250'000},
                           {"nmt:batch=512,steps=5", "flexflow-sim:2", 100'000},
                           {"nmt:batch=512,steps=20", "flexflow-sim:2", 50'000},
                           {"inception-v3:batch=512", "flexflow-sim:2", 100'000},
                           {"resnet101:batch=1024", "flexflow-sim:4", 100'000},
                           {"densenet121:batch=1024", "flexflow-sim:4", 40'000},
                           {"nmt:batch=4096,steps=5", "flexflow-sim:16", 15'000},
                           {"inception-v3:batch=4096", "flexflow-sim:16", 10'000}};

struct Setting {
  explicit Setting(const Case& c) : graph(make_zoo_model(c.model)), topology(make_topology(c.topology)) {}

  [[nodiscard]] std::vector<SearchStart> starts() {
    std::vector<SearchStart> starts;
    for (const Baseline& b : score_baselines(evaluator)) {
      if (b.name == "data-parallel") starts.push_back({b.name, b.scored->plan});
    }
    return starts;
  }
  OperatorGraph graph;
  Topology topology;
  CostModel costs{topology};
  CandidateSet candidates{graph, topology};
  Evaluator evaluator{graph, costs, {}};
};

constexpr std::int64_t kUnlimited = std::int64_t{1} << 60;

// A chain from data parallelism at a temperature of 0.01 % of its time, after the caches are warm.
struct WarmChain {
  WarmChain(const Case& c, const MoveRates& move_rates)
      : setting(c), rates(move_rates), space(setting.candidates, {setting.starts().front().strategy}) {
    ChainState first;
    first.current.plan = space.indices(setting.starts().front().strategy);
    first.rng = Rng(1);
    chain.emplace(moves, configs, Cost{}, first);
    temperature = 1e-4 * static_cast<double>(chain->state().current.evaluation.time);
    run(std::min<std::int64_t>(static_cast<std::int64_t>(c.goal), 40'000));
  }
  void run(std::int64_t proposals) {
    chain->run({kUnlimited, proposals, temperature, rates}, [](std::int64_t, std::int64_t) { return true; });
  }

  Setting setting;
  MoveRates rates;
  ConfigSpace space;
  Moves moves{space};
  BoundConfigs configs{space, setting.evaluator};
  std::optional<Chain> chain;
  double temperature = 0;
};

// The last one is kept, since the library calls a benchmark several times until it knows how long it takes.
WarmChain& warm_chain(std::int64_t number, const MoveRates& rates) {
  static std::unique_ptr<WarmChain> warm;
  static std::pair<std::int64_t, MoveRates> which{-1, {}};
  if (!warm || which != std::pair(number, rates)) {
    warm = nullptr;
    warm = std::make_unique<WarmChain>(kCases[number], rates);
    which = {number, rates};
  }
  return *warm;
}

void BM_Proposals(benchmark::State& state, const MoveRates& rates) {
  const Case& c = kCases[state.range(0)];
  state.SetLabel(std::string(c.model) + " " + c.topology);
  WarmChain& warm = warm_chain(state.range(0), rates);
  const Chain& chain = *warm.chain;

  const std::int64_t accepted = chain.state().accepted, known = chain.known();
  const IncrementalEvaluator::Counts before = chain.counts();
  std::int64_t proposals = 0;
  for (auto _ : state) {
    warm.run(100);
    proposals += 100;
  }
  const auto share = [&](std::int64_t count) {
    return static_cast<double>(count) / static_cast<double>(proposals);
  };
  const IncrementalEvaluator::Counts& after = chain.counts();
  state.SetItemsProcessed(proposals);
  state.counters["of_goal"] =
      benchmark::Counter(static_cast<double>(proposals) / c.goal, benchmark::Counter::kIsRate);
  state.counters["accepted"] = share(chain.state().accepted - accepted);
  state.counters["known"] = share(chain.known() - known);
  state.counters["by_load"] = share(after.by_load - before.by_load);
  state.counters["tasks"] = share(after.tasks_taken - before.tasks_taken);
}

#define PIPESIM_CASES ->DenseRange(0, std::size(kCases) - 1)->Unit(benchmark::kMicrosecond)->MinTime(2)
BENCHMARK_CAPTURE(BM_Proposals, single_operator, flexflow_rates()) PIPESIM_CASES;
BENCHMARK_CAPTURE(BM_Proposals, mixture, first_rates()) PIPESIM_CASES;

// A whole search on one thread and on two: the second should make it 1.8 times as fast.
void BM_Search(benchmark::State& state) {
  const Case& c = kCases[state.range(0)];
  state.SetLabel(std::string(c.model) + " " + c.topology);
  Setting s(c);
  const std::vector<SearchStart> starts = s.starts();
  McmcOptions options;
  options.budget.proposals = static_cast<std::int64_t>(0.4 * c.goal);
  options.threads = static_cast<int>(state.range(1));
  for (auto _ : state)
    benchmark::DoNotOptimize(mcmc(s.graph, s.costs, {}, s.candidates, starts, options, {}));
  state.SetItemsProcessed(state.iterations() * options.budget.proposals);
}
void in_pairs(benchmark::internal::Benchmark* benchmark) {
  for (std::size_t c = 0; c < std::size(kCases); ++c) {
    for (const int threads : {1, 2}) benchmark->Args({static_cast<int>(c), threads});
  }
}
BENCHMARK(BM_Search)
    ->Apply(in_pairs)
    ->ArgNames({"case", "threads"})
    ->Unit(benchmark::kSecond)
    ->UseRealTime()
    ->Iterations(1);

}  // namespace
}  // namespace pipesim
