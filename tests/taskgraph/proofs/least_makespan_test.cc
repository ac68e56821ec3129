// Bounds from few microbatches against simulating all.
#include "taskgraph/proofs/least_makespan.h"

#include <gtest/gtest.h>

#include <string>

#include "models/zoo/zoo.h"
#include "sim/simulate.h"
#include "tests/seeds.h"
#include "tests/taskgraph/random_pipelines.h"
#include "topologies/presets/presets.h"

namespace pipesim {
namespace {

TEST(LeastMakespan, IsNeverAboveThatOfAllMicrobatches) {
  double share = 0;
  int bounded = 0;
  for (const char* model : small_models) {
    if (model == std::string_view("resnet50:batch=8,image=64")) continue;  // many tasks, nothing new
    const OperatorGraph graph = make_zoo_model(model);
    for (const char* name : {"p100-4x4:2", "levels:2@10GB/s,3@0.1GB/s", "levels:4@1GB/s,2@1GB/s"}) {
      const Topology topology = make_topology(name);
      const CostModel costs(topology);
      for_each_seed(5, [&](Rng& rng) {
        RandomPipeline p = random_pipeline(graph, rng, topology);
        if (rng.below(6) == 0) p.options.pipeline.reset();
        if (rng.below(3) == 0) p.options.recompute = parse_recompute("full");
        const std::int32_t unit = p.options.microbatches;  // allowed, so its multiples are
        p.options.microbatches = unit * (24 / unit);
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
    }
  }
  EXPECT_GT(share, 0.8 * bounded);
}

}  // namespace
}  // namespace pipesim
