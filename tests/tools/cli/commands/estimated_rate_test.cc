#include <gmock/gmock.h>

#include <cstdlib>
#include <string>

#include "models/zoo/zoo.h"
#include "tests/seeds.h"
#include "tests/taskgraph/random_pipelines.h"
#include "tools/analysis/plans/plan_report.h"
#include "tools/render/plans/plan_report_text.h"
#include "topologies/presets/presets.h"

namespace pipesim {
namespace {

using testing::HasSubstr;
using testing::Not;

// Reports tell which rates of endless schedules are estimates; they hold what search counts as overflow.
TEST(EstimatedRate, IsTold) {
  int proven = 0, estimated = 0;
  const OperatorGraph graph = make_zoo_model(small_models[0]);
  const Topology topology = make_topology("levels:2@10GB/s,3@0.1GB/s");
  const CostModel costs(topology);
  for_each_seed(1000, [&](Rng& rng) {
    RandomPipeline p = random_pipeline(graph, rng, topology);
    p.options.pipeline->schedule = rng.below(2) == 0 ? "pipedream" : "2bw";
    if (illegal(graph, p.strategy, p.options, topology)) return;
    Evaluator evaluator(graph, costs, p.options);
    const BoundStrategy bound = evaluator.contents().bind(p.strategy);
    const Evaluation score = evaluator.evaluate(bound);
    const PlanReport report = report_plan(evaluator, bound);
    EXPECT_EQ(report.iteration_time, score.time);
    EXPECT_EQ(memory_overflow(report.memory, topology), score.overflow);
    EXPECT_EQ(report.spread.has_value(), !score.proven);
    const std::string text = to_text(report, topology), json = json_of(report, topology).dump();
    ++(score.proven ? proven : estimated);
    if (score.proven) {
      EXPECT_EQ(score.spread, 0);
      EXPECT_THAT(text, Not(HasSubstr("estimated")));
      EXPECT_THAT(json, Not(HasSubstr("iteration_time_spread_s")));
    } else {
      EXPECT_EQ(*report.spread, score.spread);
      EXPECT_LT(score.spread, score.time / 10);
      EXPECT_THAT(text, HasSubstr("no period shows; the rate of the last quarter differs by"));
      EXPECT_THAT(json, HasSubstr("iteration_time_spread_s"));
    }
  });
  EXPECT_GT(proven, estimated);
  if (sanitized || std::getenv("PIPESIM_TEST_SEED") != nullptr) return;  // fewer seeds
  EXPECT_GT(estimated, 0);
}

}  // namespace
}  // namespace pipesim
