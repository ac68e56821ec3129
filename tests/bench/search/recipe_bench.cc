#include <benchmark/benchmark.h>

#include <string>

#include "models/zoo/zoo.h"
#include "search/evaluator.h"
#include "search/recipes/expand_recipe.h"
#include "tests/bench/search/score_times.h"
#include "topologies/presets/presets.h"

namespace pipesim {
namespace {

// Llama-3 405B on 8,192 GPUs and more: 16 pipeline groups of 8 stages each, or as many as `chunks` says.
struct LlamaOfNodes {
  explicit LlamaOfNodes(std::int64_t nodes, const std::string& chunks = "vpp8")
      : copies(nodes / 16),
        graph(make_zoo_model("llama3-405b:sequence=8192,batch=" + std::to_string(copies))),
        topology(make_topology("dgx-h100:" + std::to_string(nodes))) {
    const Recipe recipe =
        parse_recipe("tp8,pp16," + chunks + ",sp,mbs1,recompute=selective,dp" + std::to_string(copies));
    RecipeStrategy made = expand_recipe(recipe, RecipeModel(graph), topology);
    made.apply_to(options);
    options.microbatches = 32;
    options.optimizer = Optimizer::Adam;
    strategy = std::move(made.strategy);
  }
  const std::int64_t copies;
  const OperatorGraph graph;
  const Topology topology;
  const CostModel costs{topology};
  Strategy strategy;
  PlanOptions options;
};

// Goal: below 1 s and 1 GiB with 1,024 nodes, not more than twice that with 2,048.
void BM_FirstScoreOfLlama405b(benchmark::State& state) {
  time_first_score(state, LlamaOfNodes(state.range(0)));
}

// The plan that was scored last, such as under another schedule; goal: below 50 ms.
void BM_ScoreLlama405b(benchmark::State& state) { time_score(state, LlamaOfNodes(state.range(0))); }

// Two plans in turn, whose operators were met before. Their stages differ, so that devices that are alike are
// looked for each time.
void BM_ScoreOtherLlama405b(benchmark::State& state) {
  const LlamaOfNodes plans[] = {LlamaOfNodes(state.range(0)), LlamaOfNodes(state.range(0), "vpp4")};
  Evaluator evaluator(plans[0].graph, plans[0].costs, plans[0].options);
  std::size_t next = 0;
  const auto score = [&] {
    const LlamaOfNodes& plan = plans[next++ % std::size(plans)];
    benchmark::DoNotOptimize(
        evaluator.with(plan.options.pipeline, plan.options.recompute).evaluate(plan.strategy));
  };
  for (std::size_t i = 0; i < std::size(plans); ++i) score();
  for (auto _ : state) score();
  count_memory(state, evaluator, evaluator.contents().bind(plans[0].strategy));
}

BENCHMARK(BM_FirstScoreOfLlama405b)->Arg(1024)->Arg(2048)->Unit(benchmark::kMillisecond);
BENCHMARK(BM_ScoreLlama405b)->Arg(1024)->Unit(benchmark::kMillisecond);
BENCHMARK(BM_ScoreOtherLlama405b)->Arg(1024)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace pipesim
