#include <benchmark/benchmark.h>

#include <optional>
#include <string>
#include <vector>

#include "models/zoo/zoo.h"
#include "search/additive/additive_starts.h"
#include "search/additive/intra_costs.h"
#include "search/baselines/layer_wise.h"
#include "search/move_units.h"
#include "topologies/presets/presets.h"

namespace pipesim {
namespace {

struct StartCase {
  const char* model;
  const char* topology;
};
constexpr StartCase kStartCases[] = {{"nmt:batch=512,steps=5", "flexflow-sim:2"},
                                     {"inception-v3:batch=512", "flexflow-sim:2"},
                                     {"rnnlm", "p100-4x4"},
                                     {"rnnlm", "k80-16x4"}};

// What chains begin with: sums of costs solved with several weights, and the simulator's choice among them.
// How much faster than data parallelism the best is stands beside the time. Each begins with an evaluator
// that has seen nothing.
void BM_AdditiveStarts(benchmark::State& state) {
  const StartCase& c = kStartCases[state.range(0)];
  state.SetLabel(std::string(c.model) + " on " + c.topology);
  const OperatorGraph graph = make_zoo_model(c.model);
  const Topology topology = make_topology(c.topology);
  const CostModel costs(topology);
  const CandidateSet candidates(graph, topology);
  const Strategy first = data_parallel_strategy(graph, costs);
  const ConfigSpace space(candidates, {first});
  const MoveUnits units = repeated_operators(candidates);
  const std::vector<std::size_t> configs = space.indices(first);
  double gain = 0;
  for (auto _ : state) {
    state.PauseTiming();
    std::optional<Evaluator> evaluator(std::in_place, graph, costs, PlanOptions());
    const auto time = static_cast<double>(evaluator->evaluate(first).time);
    state.ResumeTiming();
    const auto starts = additive_starts(space, units, *evaluator, {configs}, configs, [] { return true; });
    state.PauseTiming();
    gain = time / static_cast<double>(starts.front().evaluation.time);
    evaluator.reset();
    state.ResumeTiming();
  }
  state.counters["over_data_parallel"] = gain;
}
BENCHMARK(BM_AdditiveStarts)
    ->DenseRange(0, std::size(kStartCases) - 1)
    ->Unit(benchmark::kMillisecond)
    ->Iterations(1);

// Splits over the axes of a mesh, from the model to the proven answer.
struct MeshCase {
  const char *model, *topology;
  MeshAxes mesh;
};
const MeshCase& mesh_case(benchmark::State& state) {
  static const std::vector<MeshCase> cases{
      {"gpt:batch=8,layers=16,hidden=1024,heads=16,vocab=51200,sequence=1024", "dgx1-v100", {2, 4}},
      {"llama3-8b:batch=64,dtype=bfloat16", "dgx-h100:8", {8, 8}}};
  const MeshCase& c = cases[static_cast<std::size_t>(state.range(0))];
  state.SetLabel(std::string(c.model) + " on " + c.topology);
  return c;
}

PlanOptions mesh_options() {
  PlanOptions options;
  options.microbatches = 4;
  options.state_sharding = parse_state_sharding("zero1");
  return options;
}

// Goal for 64 devices: 1 s.
void BM_IntraOnMesh(benchmark::State& state) {
  const MeshCase& c = mesh_case(state);
  const Topology topology = make_topology(c.topology);
  const CostModel costs(topology);
  IntraSolution solution;
  for (auto _ : state) {
    const OperatorGraph graph = make_zoo_model(c.model);
    IntraCosts intra(graph, costs, mesh_options(), c.mesh);
    solution = intra.solve_planned(intra.all(), 1, intra.usable(), {});
  }
  state.counters["proven"] = solution.found && solution.proven ? 1 : 0;
}
BENCHMARK(BM_IntraOnMesh)->DenseRange(0, 1)->Unit(benchmark::kMillisecond);

// The solver alone, with all transfers planned. Goal for 8 devices: 10 ms.
void BM_SolveOnMesh(benchmark::State& state) {
  const MeshCase& c = mesh_case(state);
  const OperatorGraph graph = make_zoo_model(c.model);
  const Topology topology = make_topology(c.topology);
  const CostModel costs(topology);
  IntraCosts intra(graph, costs, mesh_options(), c.mesh);
  intra.plan_all();
  const IntraInstance instance = intra.instance(intra.usable());
  IntraSolution solution;
  for (auto _ : state) solution = solve(instance);
  state.counters["proven"] = solution.found && solution.proven ? 1 : 0;
  state.counters["nodes"] = static_cast<double>(instance.nodes.size());
}
BENCHMARK(BM_SolveOnMesh)->DenseRange(0, 1)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace pipesim
