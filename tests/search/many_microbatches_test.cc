#include <gmock/gmock.h>

#include "models/zoo/zoo.h"
#include "search/baselines/baselines.h"
#include "search/evaluator.h"
#include "search/planners/gpipe.h"
#include "taskgraph/plan/plan_json.h"
#include "topologies/presets/presets.h"

namespace pipesim {
namespace {

constexpr const char* kModel = "mlp:batch=4,layers=3,hidden=32,features=16,classes=8";

struct Scores {
  Scores() : graph(make_zoo_model(kModel)), topology(make_topology("levels:4@10GB/s")) {}

  // Under a schedule in four stages, or data parallelism for "".
  Evaluation score(const std::string& schedule, std::int32_t microbatches, bool in_full = false) {
    PlanOptions options;
    options.microbatches = microbatches;
    Strategy strategy = baseline_strategy("data-parallel", graph, costs);
    if (!schedule.empty()) {
      PipelinedStrategy made = gpipe_strategy(graph, costs, {4, 1, schedule});
      strategy = std::move(made.strategy);
      options.pipeline = std::move(made.pipeline);
    }
    Evaluator evaluator(graph, costs, options);
    const Evaluated result = evaluator.evaluate(
        strategy, {.extent = in_full ? Extent::All : Extent::Proving, .part = Labels::Leave});
    simulated = result.part->dag().num_tasks();
    return *result.cost;
  }

  OperatorGraph graph;
  Topology topology;
  CostModel costs{topology};
  std::size_t simulated = 0;  // tasks of the last score
};

TEST(ManyMicrobatches, ScoresAreThoseOfAllTasks) {
  Scores s;
  for (const char* schedule : {"", "1f1b", "zb-h1"}) {
    for (const std::int32_t microbatches : {1025, 1536, 4096}) {
      SCOPED_TRACE(testing::Message() << schedule << ", " << microbatches);
      const Evaluation few = s.score(schedule, microbatches);
      const std::size_t tasks = s.simulated;
      EXPECT_EQ(few, s.score(schedule, microbatches, true));
      EXPECT_LT(20 * tasks, s.simulated);
    }
  }
}

// The number of simulated tasks does not depend on the number of microbatches, and every further microbatch
// takes the same time.
TEST(ManyMicrobatches, AHundredThousandCostNoMore) {
  Scores s;
  for (const char* schedule : {"", "1f1b"}) {
    SCOPED_TRACE(schedule);
    const Nanoseconds once = s.score(schedule, 4'000).time;
    const std::size_t tasks = s.simulated;
    const Nanoseconds more = s.score(schedule, 52'000).time;
    EXPECT_EQ(s.simulated, tasks);
    EXPECT_EQ(s.score(schedule, 100'000).time - more, more - once);
    EXPECT_EQ(s.simulated, tasks);
  }
}

}  // namespace
}  // namespace pipesim
