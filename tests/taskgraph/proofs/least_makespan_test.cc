// Bounds from few microbatches against simulating all.
#include "taskgraph/proofs/least_makespan.h"

#include <gtest/gtest.h>

#include "sim/simulate.h"
#include "tests/taskgraph/random_pipelines.h"

namespace pipesim {
namespace {

TEST(LeastMakespan, IsNeverAboveThatOfAllMicrobatches) {
  constexpr int kSeeds = sanitized ? 20 : 5;  // a quarter of them: as many, since the share is of these
  double share = 0;
  int bounded = 0;
  for_pipelines_of_many_microbatches(kSeeds, [&](const OperatorGraph& graph, const CostModel& costs,
                                                 const RandomPipeline& p, std::int32_t unit) {
    const PlanContents contents(graph, costs, p.options);
    if (contents.versions().several()) return;
    const BoundStrategy bound = contents.bind(p.strategy);
    ExpandedStrategy expanded(contents);
    expanded.expand(bound);
    const Nanoseconds all = simulate(expanded.dag()).makespan;
    for (std::int32_t n = unit; n < p.options.microbatches; n += unit) {
      SCOPED_TRACE(n);
      expanded.expand(bound, {.microbatches = n});
      const LeastMakespan least = least_makespan(expanded, simulate(expanded.dag()));
      EXPECT_LE(least.of_steps, least.time);
      EXPECT_LE(least.time, all);
      share += static_cast<double>(least.time) / static_cast<double>(all);
      ++bounded;
    }
    expanded.expand(bound);
    EXPECT_EQ(least_makespan(expanded, simulate(expanded.dag())).time, 0);
  });
  EXPECT_GT(share, 0.8 * bounded);
}

}  // namespace
}  // namespace pipesim
