#include <benchmark/benchmark.h>

#include "models/zoo/zoo.h"
#include "search/evaluator.h"
#include "search/planners/gpipe.h"
#include "topologies/presets/presets.h"

namespace pipesim {
namespace {

// GPT of 24 layers on 8 stages of one device each: all microbatches simulated, or as many as it takes.
struct EightStages {
  EightStages(const char* schedule, std::int32_t chunks, std::int64_t microbatches)
      : planned(gpipe_strategy(graph, costs, {8 * chunks, chunks, schedule})),
        evaluator(graph, costs, options_of(planned, microbatches)),
        bound(evaluator.contents().bind(planned.strategy)) {}

  static PlanOptions options_of(const PipelinedStrategy& planned, std::int64_t microbatches) {
    PlanOptions options;
    options.microbatches = static_cast<std::int32_t>(microbatches);
    options.pipeline = planned.pipeline;
    return options;
  }

  const OperatorGraph graph = make_zoo_model("gpt:batch=4,layers=24");
  const Topology topology = make_topology("p100-4x4:2");
  const CostModel costs{topology};
  PipelinedStrategy planned;
  Evaluator evaluator;
  BoundStrategy bound;
};

void time_evaluation(benchmark::State& state, const char* schedule, std::int32_t chunks, Extent extent) {
  EightStages s(schedule, chunks, state.range(0));
  for (auto _ : state) benchmark::DoNotOptimize(s.evaluator.evaluate(s.bound, {.extent = extent}));
  const Evaluated found = s.evaluator.evaluate(s.bound, {.extent = extent, .part = Labels::Leave});
  state.counters["tasks"] = static_cast<double>(found.part->dag().num_tasks());
}

void BM_AllMicrobatches(benchmark::State& state, const char* schedule, std::int32_t chunks) {
  time_evaluation(state, schedule, chunks, Extent::All);
}

void BM_SteadyState(benchmark::State& state, const char* schedule, std::int32_t chunks) {
  time_evaluation(state, schedule, chunks, Extent::Proving);
}

void few_and_many(benchmark::internal::Benchmark* b) {
  b->Arg(64)->Arg(512)->ArgName("microbatches")->Unit(benchmark::kMillisecond);
}

BENCHMARK_CAPTURE(BM_AllMicrobatches, 1f1b, "1f1b", 1)->Apply(few_and_many);
BENCHMARK_CAPTURE(BM_SteadyState, 1f1b, "1f1b", 1)->Apply(few_and_many);
BENCHMARK_CAPTURE(BM_AllMicrobatches, interleaved, "interleaved", 2)->Apply(few_and_many);
BENCHMARK_CAPTURE(BM_SteadyState, interleaved, "interleaved", 2)->Apply(few_and_many);
BENCHMARK_CAPTURE(BM_AllMicrobatches, zb_h2, "zb-h2", 1)->Apply(few_and_many);
BENCHMARK_CAPTURE(BM_SteadyState, zb_h2, "zb-h2", 1)->Apply(few_and_many);
BENCHMARK_CAPTURE(BM_AllMicrobatches, gpipe, "gpipe", 1)->Apply(few_and_many);
BENCHMARK_CAPTURE(BM_SteadyState, gpipe, "gpipe", 1)->Apply(few_and_many);

}  // namespace
}  // namespace pipesim
