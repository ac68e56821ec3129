#include <benchmark/benchmark.h>

#include <cstdlib>
#include <string>

#include "models/zoo/zoo.h"
#include "search/baselines/baselines.h"
#include "search/evaluator.h"
#include "tests/bench/search/score_times.h"
#include "topologies/presets/presets.h"

namespace pipesim {
namespace {

constexpr std::int32_t kTensor = 8, kPipeline = 8, kData = 16, kLayers = 96, kMicrobatches = 64;

// GPT-3 175B on 1,024 A100s: Megatron-LM's tensor parallelism inside of nodes, 16 nodes with a replica each
// for every group of a pipeline.
struct GptOn1024 {
  explicit GptOn1024(const char* schedule)
      : strategy(baseline_strategy("expert", graph, CostModel(make_topology("dgx-a100:16")))) {
    options.microbatches = kMicrobatches;
    options.pipeline = Pipeline{schedule, {}};
    const std::int32_t stages = kPipeline * (schedule_kind(schedule).takes_chunks ? 2 : 1);
    std::int32_t stage = 0;
    for (std::size_t i = 0; i < strategy.size(); ++i) {
      const std::string& name = graph.operators()[i].name;  // "layer12.query"
      if (name.starts_with("layer")) stage = (std::atoi(name.c_str() + 5) - 1) * stages / kLayers;
      options.pipeline->stage_of.push_back(stage);
      for (DeviceId& d : strategy[i].devices) d = DeviceId(d.value + stage % kPipeline * kTensor * kData);
    }
  }

  const OperatorGraph graph = make_zoo_model("gpt3-175b:batch=16,vocab=51200");
  const Topology topology = make_topology("dgx-a100:128");
  const CostModel costs{topology};
  Strategy strategy;
  PlanOptions options;
};

// A plan whose operators and transfers were met before; goal: below 100 ms and 1 GiB.
void BM_ScoreGptOn1024(benchmark::State& state, const char* schedule) {
  time_score(state, GptOn1024(schedule));
}

void BM_FirstScoreOfGptOn1024(benchmark::State& state, const char* schedule) {
  time_first_score(state, GptOn1024(schedule));
}

BENCHMARK_CAPTURE(BM_ScoreGptOn1024, 1f1b, "1f1b")->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(BM_ScoreGptOn1024, interleaved, "interleaved")->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(BM_ScoreGptOn1024, zb_h1, "zb-h1")->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(BM_ScoreGptOn1024, gpipe, "gpipe")->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(BM_FirstScoreOfGptOn1024, 1f1b, "1f1b")->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(BM_FirstScoreOfGptOn1024, interleaved, "interleaved")->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace pipesim
