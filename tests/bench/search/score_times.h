#pragma once

#include <benchmark/benchmark.h>
#include <sys/resource.h>

#include "search/evaluator.h"

namespace pipesim {

/// Adds the peak memory of the process, of all benchmarks until here, and the tasks that were simulated.
inline void count_memory(benchmark::State& state, Evaluator& evaluator, const BoundStrategy& strategy) {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  state.counters["peak_mb"] = static_cast<double>(usage.ru_maxrss) / 1000;
  state.counters["tasks"] =
      static_cast<double>(evaluator.evaluate(strategy, {.part = Labels::Leave}).part->dag().num_tasks());
}

/// Scores of a subject's plan (graph, costs, options, strategy) by evaluators that know nothing yet.
template <class Subject>
void time_first_score(benchmark::State& state, const Subject& s) {
  for (auto _ : state) {
    Evaluator evaluator(s.graph, s.costs, s.options);
    benchmark::DoNotOptimize(evaluator.evaluate(s.strategy));
    state.PauseTiming();
    count_memory(state, evaluator, evaluator.contents().bind(s.strategy));
    state.ResumeTiming();
  }
}

/// Scores of a plan whose operators and transfers were met before.
template <class Subject>
void time_score(benchmark::State& state, const Subject& s) {
  Evaluator evaluator(s.graph, s.costs, s.options);
  const BoundStrategy bound = evaluator.contents().bind(s.strategy);
  evaluator.evaluate(bound);
  for (auto _ : state) benchmark::DoNotOptimize(evaluator.evaluate(bound));
  count_memory(state, evaluator, bound);
}

}  // namespace pipesim
