#include <benchmark/benchmark.h>

#include <string>

#include "models/zoo/zoo.h"
#include "search/recipe_planner/rank_recipes.h"
#include "topologies/presets/presets.h"

namespace pipesim {
namespace {

// Decides recipes of Llama 3 70B on 64 devices by bounds alone: all are bounded, none is simulated. Goal:
// 10,000 a second.
void BM_BoundAllRecipes(benchmark::State& state) {
  const OperatorGraph graph = make_zoo_model("llama3-70b");
  const Topology topology = make_topology("dgx-h100:8");
  const CostModel costs(topology);
  const RecipeModel model(graph);
  constexpr std::int64_t kSamples = 512;
  PlanOptions options;
  options.optimizer = Optimizer::Adam;
  const RankingRequest request{model,
                               costs,
                               options,
                               kSamples,
                               {},
                               [](std::int64_t batch, std::int64_t parts) {
                                 std::string name = "llama3-70b:batch=" + std::to_string(batch);
                                 if (parts > 1) name += ",zigzag=" + std::to_string(parts);
                                 return make_zoo_model(name);
                               },
                               {},
                               1};
  std::int64_t decided = 0;
  for (auto _ : state) {
    const RecipeRanking ranking =
        rank_recipes(request, [](const RankingProgress& now) { return now.bounded < now.recipes; });
    decided += ranking.bounded;
  }
  state.counters["recipes"] = benchmark::Counter(static_cast<double>(decided), benchmark::Counter::kIsRate);
}
BENCHMARK(BM_BoundAllRecipes)->Unit(benchmark::kSecond);

}  // namespace
}  // namespace pipesim
