#include "search/alpa/solved_stages.h"

#include <gmock/gmock.h>

#include <algorithm>

#include "models/zoo/zoo.h"
#include "search/planners/planner.h"
#include "tests/search/alpa/placed_rows.h"
#include "tests/search/intra/random_instance.h"
#include "tests/search/limited_memory.h"

namespace pipesim {
namespace {

using testing::Ge;

struct StagesCase {
  StagesCase(const char* model, Topology t, std::int32_t microbatches)
      : problem{model, make_zoo_model(model), "", std::move(t)}, costs(problem.topology) {
    problem.options.microbatches = microbatches;
    problem.options.optimizer = Optimizer::Adam;
    settings.schedules = {"1f1b"};
    settings.layers = 4;
  }
  [[nodiscard]] PlanRequest request() const {
    return {problem, costs, {}, {}, settings, [](std::string_view) {}};
  }
  [[nodiscard]] Evaluation score(const PlannedModel& planned) const {
    return Evaluator(planned.graph, costs, planned.options).evaluate(planned.strategy);
  }

  Problem problem;
  CostModel costs;
  PlannerSettings settings;
};

// All answers of a run of clusters on a submesh, with everything planned: the least sum that leaves memory
// for so many stages behind.
double least_of_all(const StagesCase& c, const StageClusters& clusters, const StageOption& option,
                    std::int64_t successors) {
  StageMesh mesh;
  for (std::int64_t d = 0; d < option.devices; ++d) mesh.devices.emplace_back(static_cast<std::size_t>(d));
  const Pipeline one_stage{"1f1b", std::vector<std::int32_t>(c.problem.graph.operators().size(), 0)};
  IntraCosts costs(c.problem.graph, c.costs, c.problem.options, mesh.devices,
                   {staged_strategy(c.problem.graph, c.problem.topology, one_stage, {mesh}).strategy}, 100);
  costs.plan_all();
  std::vector<bool> inside;
  for (const std::int32_t cluster : clusters.cluster_of())
    inside.push_back(option.first <= cluster && cluster <= option.last);
  const AdditiveCounts part = costs.counts_of(inside);
  const Bytes usable = c.problem.topology.usable_memory(
      DeviceId(0), clusters.communicators(option.devices, std::min<std::int64_t>(2, option.devices)));
  return IntraCosts::seconds_of(least_cost(costs.problem(part, successors + 1, usable)).value());
}

TEST(SolvedStages, AreTheBestSplitsOfTheirOperators) {
  constexpr const char* kMlp = "mlp:batch=16,layers=2,features=64,hidden=256,classes=16";
  constexpr std::int32_t kClusters = 2;
  int looked_at = 0;
  for (const std::int64_t memory : {std::int64_t{0}, std::int64_t{1'000'000}}) {
    const StagesCase c(kMlp, with_device_memory("levels:4@10GB/s@5us", memory), 4);
    SolvedStages stages(c.problem.graph, c.costs, c.problem.options, kClusters, "1f1b");
    const StageClusters clusters(c.problem.graph, c.costs, kClusters, "1f1b");
    const std::vector<AlpaPlan> plans = stages.plans(Bytes(0), {});
    ASSERT_FALSE(plans.empty());
    for (const StageOption& option : plans.front().options) {
      const std::int64_t successors =
          std::min<std::int64_t>(option.most_successors, kClusters - 1 - option.last);
      const double least = least_of_all(c, clusters, option, successors);
      const double sum =
          option.time.value -
          clusters.transfer_time(option.devices, static_cast<std::size_t>(option.last), NextStage::InNode)
              .value;
      EXPECT_NEAR(sum, least, 1e-9 * least)
          << option.first << " to " << option.last << " on " << option.devices;
      ++looked_at;
    }
  }
  EXPECT_THAT(looked_at, Ge(12));
}

// It may be no slower than the best rows; on these models it is faster.
TEST(SolvedStages, AreFasterThanRows) {
  struct Model {
    const char *name, *topology;
  };
  for (const Model& m : {Model{"alexnet:batch=64", "levels:4@10GB/s@5us,2@1GB/s@20us"},
                         Model{"gpt:batch=8,layers=4,hidden=256,heads=4,vocab=4096,sequence=64",
                               "levels:4@10GB/s@5us,2@1GB/s@20us"}}) {
    SCOPED_TRACE(m.name);
    const StagesCase c(m.name, with_device_memory(m.topology, 0), 4);
    const PlannedModel planned = propose_alpa(c.request()).plan;
    EXPECT_FALSE(illegal(planned.graph, planned.strategy, planned.options, c.problem.topology));
    const Evaluation found = c.score(planned);
    EXPECT_TRUE(found.feasible());
    std::optional<Nanoseconds> rows;
    for (const AlpaPlan& plan : alpa(c.problem.graph, c.costs, c.problem.options, c.settings.layers, {})) {
      const Evaluation of_rows =
          c.score(PlannedModel(c.request(), placed_rows(c.problem.graph, c.problem.topology, plan, "1f1b")));
      rows = std::min(rows.value_or(of_rows.time), of_rows.time);
    }
    ASSERT_TRUE(rows);
    EXPECT_LT(found.time, *rows);
  }
}

}  // namespace
}  // namespace pipesim
