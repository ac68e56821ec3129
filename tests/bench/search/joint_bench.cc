#include <benchmark/benchmark.h>

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "models/zoo/zoo.h"
#include "search/joint/joint_search.h"
#include "search/planners/gpipe.h"
#include "topologies/presets/presets.h"

namespace pipesim {
namespace {

constexpr std::int32_t kBertBatch = 256;

std::optional<OperatorGraph> bert48_in(std::int32_t microbatches, const SequenceDivision& /*sequence*/) {
  if (kBertBatch % microbatches != 0) return std::nullopt;
  return make_zoo_model("bert48:batch=" + std::to_string(kBertBatch / microbatches));
}

// The search over stages and splits together, 200 proposals from GPipe's pipelines, on one thread and on two.
// Each begins with an evaluator that has seen nothing.
void BM_SearchJointly(benchmark::State& state) {
  const Topology topology = make_topology("dapple-a");
  const CostModel costs(topology);
  state.SetLabel("joint: bert48, batch 256, dapple-a");
  JointOptions options;
  options.budget.proposals = 200;
  options.threads = static_cast<int>(state.range(0));
  for (auto _ : state) {
    state.PauseTiming();
    std::optional<JointEvaluator> evaluator(std::in_place, bert48_in, costs, PlanOptions());
    std::vector<JointPlan> starts;
    for (const std::int32_t microbatches : {16, 32}) {
      for (const std::int32_t stages : {2, 4, 8, 16}) {
        PipelinedStrategy made = gpipe_strategy(*evaluator->graph(microbatches), costs, {stages, 1, "1f1b"});
        starts.push_back({{}, microbatches, std::move(made.pipeline), std::move(made.meshes), {}});
      }
    }
    const CandidateSet candidates(*evaluator->graph(16), topology);
    const JointMoves moves(candidates, kMostMicrobatches);
    state.ResumeTiming();
    benchmark::DoNotOptimize(search_jointly(*evaluator, moves, starts, options, {}));
    state.PauseTiming();
    evaluator.reset();
    state.ResumeTiming();
  }
  state.SetItemsProcessed(state.iterations() * options.budget.proposals);
}
BENCHMARK(BM_SearchJointly)
    ->Arg(1)
    ->Arg(2)
    ->ArgName("threads")
    ->Unit(benchmark::kMillisecond)
    ->UseRealTime()
    ->Iterations(1);

}  // namespace
}  // namespace pipesim
