#include <benchmark/benchmark.h>

#include <algorithm>

#include "search/intra/dual_ascent.h"
#include "search/intra/reductions.h"
#include "search/intra/solve.h"
#include "search/intra/tree_moves.h"

namespace pipesim {
namespace {

// Layers of `width` nodes, joined to those of the next one, with as many strategies each. What is alive are
// two layers; a third of what the dearest choice uses fits.
IntraInstance layered(std::uint32_t layers, std::uint32_t width, std::size_t strategies) {
  Rng rng(1);
  IntraInstance instance;
  for (std::uint32_t i = 0; i < layers * width; ++i) {
    IntraInstance::Node node{i / width, i / width + 2, {}, {}};
    for (std::size_t s = 0; s < strategies; ++s) {
      node.cost.push_back(rng.between(0, 1000));
      node.usage.push_back(1500 - node.cost.back() + rng.between(0, 100));
    }
    instance.nodes.push_back(std::move(node));
  }
  for (std::uint32_t i = 0; i + width < layers * width; ++i) {
    for (const std::uint32_t j :
         {i / width * width + width + i % width, i / width * width + width + (i + 1) % width}) {
      if (width == 1 && j != i + 1) continue;
      IntraInstance::Edge edge{i, j, {}};
      for (std::size_t c = 0; c < strategies * strategies; ++c) edge.cost.push_back(rng.between(0, 500));
      instance.edges.push_back(std::move(edge));
      if (width == 1) break;
    }
  }
  instance.limit = std::int64_t{2} * width * 1600;
  return instance;
}

// Reductions alone solve it. Goal: 1 ms.
void BM_IntraChain(benchmark::State& state) {
  const IntraInstance instance = layered(200, 1, 10);
  for (auto _ : state) benchmark::DoNotOptimize(solve(instance).cost);
}
BENCHMARK(BM_IntraChain)->Unit(benchmark::kMillisecond);

IntraCore layered_core(std::int64_t limit_share) {
  IntraInstance instance = layered(100, 6, 12);
  instance.limit = instance.limit * limit_share / 100;
  IntraModel model(instance);
  reduce(model);
  return IntraCore(model);
}

// Both passes of message passing; the counter is the time for each entry of the tables.
void BM_IntraPasses(benchmark::State& state) {
  const IntraCore core = layered_core(60);
  MessagePassing messages(core);
  for (auto _ : state) benchmark::DoNotOptimize(messages.forward() + messages.backward());
  state.counters["entry"] =
      benchmark::Counter(static_cast<double>(2 * core.cells),
                         benchmark::Counter::kIsIterationInvariantRate | benchmark::Counter::kInvert);
}
BENCHMARK(BM_IntraPasses)->Unit(benchmark::kMicrosecond);

// Moves of forests that read ten million entries.
void BM_IntraMoves(benchmark::State& state) {
  const IntraCore core = layered_core(60);
  TreeMoves moves(core, Rng(1));
  moves.set(std::vector<std::uint32_t>(core.nodes.size(), 0));
  for (auto _ : state) moves.run(10'000'000, 0, 0);
  state.counters["cost"] = moves.best_cost();
}
BENCHMARK(BM_IntraMoves)->Unit(benchmark::kMillisecond);

// Twenty rounds, with the gap that is left in per mille.
void BM_IntraRounds(benchmark::State& state) {
  IntraInstance instance = layered(100, 6, 12);
  instance.limit = instance.limit * 60 / 100;
  IntraSettings settings;
  settings.rounds = 20;
  double gap = 0;
  for (auto _ : state) gap = solve(instance, settings).gap();
  state.counters["gap"] = 1000 * gap;
}
BENCHMARK(BM_IntraRounds)->Unit(benchmark::kMillisecond)->Iterations(1);

}  // namespace
}  // namespace pipesim
