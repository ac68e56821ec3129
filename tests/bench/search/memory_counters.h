#pragma once

#include <benchmark/benchmark.h>
#include <sys/resource.h>

#include "search/evaluator.h"

namespace pipesim {

/// Adds the peak memory of the process, of all benchmarks until here, and the tasks that were simulated.
inline void count_memory(benchmark::State& state, const Evaluator& evaluator) {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  state.counters["peak_mb"] = static_cast<double>(usage.ru_maxrss) / 1000;
  state.counters["tasks"] = static_cast<double>(evaluator.task_graph().dag.num_tasks());
}

}  // namespace pipesim
