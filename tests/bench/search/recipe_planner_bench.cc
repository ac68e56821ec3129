#include <benchmark/benchmark.h>

#include <string>

#include "models/zoo/zoo.h"
#include "search/recipe_planner/rank_recipes.h"
#include "topologies/presets/presets.h"

namespace pipesim {
namespace {

// Finds and proves the best recipe of Llama 3 70B on 64 devices, on one thread; those that are simulated
// included. Goals: 10,000 recipes a second, 20 s.
void BM_ProveTheBestRecipe(benchmark::State& state) {
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
                               [](const ModelShape& shape) {
                                 std::string name = "llama3-70b:batch=" + std::to_string(shape.batch);
                                 if (shape.sequence.parts > 1)
                                   name += ",zigzag=" + std::to_string(shape.sequence.parts);
                                 return make_zoo_model(name);
                               },
                               {},
                               1};
  std::int64_t decided = 0;
  for (auto _ : state) {
    const RecipeRanking ranking = rank_recipes(request, [](const RankingProgress&) { return true; });
    decided += ranking.recipes - ranking.left;
  }
  state.counters["recipes"] = benchmark::Counter(static_cast<double>(decided), benchmark::Counter::kIsRate);
}
BENCHMARK(BM_ProveTheBestRecipe)->Unit(benchmark::kSecond)->Iterations(1);

}  // namespace
}  // namespace pipesim
