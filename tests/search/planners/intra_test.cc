#include <gmock/gmock.h>

#include <algorithm>
#include <string>

#include "models/zoo/zoo.h"
#include "search/additive/intra_costs.h"
#include "search/planners/planner.h"
#include "sim/base/errors.h"
#include "tests/search/intra/random_instance.h"
#include "tests/search/limited_memory.h"
#include "tests/seeds.h"

namespace pipesim {
namespace {

using testing::AllOf;
using testing::Ge;
using testing::HasSubstr;
using testing::Le;
using testing::Lt;

struct IntraCase {
  IntraCase(const char* model, Topology t, std::int32_t microbatches = 1)
      : problem{model, make_zoo_model(model), "", std::move(t)}, costs(problem.topology) {
    problem.options.microbatches = microbatches;
    problem.options.optimizer = Optimizer::Adam;
  }
  [[nodiscard]] PlannerAnswer plan() const {
    return propose_intra({problem, costs, {}, {}, settings, [](std::string_view) {}});
  }

  Problem problem;
  CostModel costs;
  PlannerSettings settings;
};

// All choices of a small model: the least sum of those that fit, with everything planned.
double least_sum_of_all(const IntraCase& c) {
  IntraCosts costs(c.problem.graph, c.costs, c.problem.options, c.settings.mesh);
  costs.plan_all();
  const WideCost least = least_cost(costs.problem(costs.all(), 1, costs.usable())).value();
  return IntraCosts::seconds_of(least) * c.problem.options.microbatches;
}

constexpr const char* kMlp = "mlp:batch=64,layers=1,features=256,hidden=256,classes=16";
constexpr const char* kNetwork = "levels:2@10GB/s@5us,2@1GB/s@20us";

TEST(Intra, FindsTheLeastSumOfAllChoices) {
  for (const std::int32_t microbatches : {1, 4}) {
    const IntraCase c(kMlp, with_device_memory(kNetwork, 0), microbatches);
    const PlannerAnswer planned = c.plan();
    ASSERT_TRUE(planned.objective);
    EXPECT_NEAR(planned.objective->value, least_sum_of_all(c), 1e-9 * planned.objective->value);
    EXPECT_THAT(planned.note, HasSubstr("proven to be the least of all choices"));
    EXPECT_FALSE(
        illegal(planned.plan.graph, planned.plan.strategy, planned.plan.options, c.problem.topology));
    EXPECT_EQ(Evaluator(c.problem.graph, c.costs, c.problem.options).evaluate(planned.plan.strategy),
              planned.scored);
  }
}

// Each split follows the axes, and no other answer that does is less.
TEST(Intra, KeepsToAMesh) {
  IntraCase c("mlp:batch=64,layers=2,features=256,hidden=1024,classes=16", with_device_memory(kNetwork, 0));
  c.settings.mesh = {2, 2};
  const PlannerAnswer planned = c.plan();
  EXPECT_NEAR(planned.objective->value, least_sum_of_all(c), 1e-9 * planned.objective->value);
  for (const ParallelConfig& config : planned.plan.strategy) EXPECT_EQ(config.devices.size(), 4U);
  c.settings.mesh = {4};
  const PlannerAnswer line = c.plan();
  EXPECT_GE(line.objective->value, planned.objective->value);
  for (const ParallelConfig& config : line.plan.strategy)
    EXPECT_EQ(std::ranges::max(config.degrees) * config.replicas, 4);
  c.settings.mesh = {2, 4};
  try {
    (void)c.plan();
    ADD_FAILURE() << "a mesh of 8 on 4 devices";
  } catch (const InputError& error) {
    EXPECT_THAT(error.what(), HasSubstr("a mesh of 2x4 has 8 devices, allowed for"));
  }
}

// Random splits move much: without what operators get from others and keep, the sums fall short of the peak.
TEST(Intra, SumsTellTheMemoryOfAnySplits) {
  IntraCase c("gpt:batch=16,layers=4,hidden=128,heads=8,vocab=256,sequence=64",
              with_device_memory(kNetwork, 0));
  c.problem.options.state_sharding = parse_state_sharding("zero1");
  IntraCosts costs(c.problem.graph, c.costs, c.problem.options, {2, 2});
  costs.plan_all();
  const PairUsages problem = costs.problem(costs.all(), 1, costs.usable());
  for_each_seed(100, [&](Rng& rng) {
    IntraAnswer answer;
    for (std::size_t n = 0; n < problem.nodes(); ++n)
      answer.push_back(static_cast<std::uint32_t>(rng.below(problem.instance().nodes[n].cost.size())));
    const IntraAnswer extended = problem.extended(answer);
    double sum = 0, alone = 0;
    for (std::size_t n = 0; n < extended.size(); ++n) {
      const auto usage = static_cast<double>(problem.instance().nodes[n].usage[extended[n]]);
      sum += usage;
      alone += n < problem.nodes() ? usage : 0;
    }
    const Evaluated found = costs.evaluator().evaluate(costs.strategy(answer), {.peaks = true});
    const auto peak = static_cast<double>(std::ranges::max(found.peaks, {}, &DeviceMemory::peak).peak.value);
    EXPECT_THAT(sum / peak, AllOf(Ge(0.85), Le(1.15)));
    EXPECT_THAT(alone / peak, Lt(1));
  });
}

// Norms kernel by kernel keep 6 bytes an element of their inputs instead of 2 (kept=torch-eager), in the
// simulation and in the sums.
TEST(Intra, SumsHaveTheFloat32CopiesOfNorms) {
  const auto held = [](const std::string& kept) {
    const std::string model =
        "llama:batch=16,layers=4,hidden=128,heads=8,kv_heads=8,ffn=64,vocab=256,sequence=64,dtype=bfloat16,"
        "kept=" +
        kept;
    IntraCase c(model.c_str(), with_device_memory(kNetwork, 0));
    IntraCosts costs(c.problem.graph, c.costs, c.problem.options, {4});
    costs.plan_all();
    return costs.least_held().value;
  };
  EXPECT_GT(held("torch-eager"), held("torch"));
}

// Copies of all weights no longer fit, so weights are divided, at a price.
TEST(Intra, KeepsWithinMemory) {
  constexpr const char* kWide = "mlp:batch=64,layers=2,features=1024,hidden=2048,classes=16";
  const IntraCase roomy(kWide, with_device_memory(kNetwork, 0));
  const PlannerAnswer free = roomy.plan();
  Evaluator evaluator(roomy.problem.graph, roomy.costs, roomy.problem.options);
  const Evaluated found = evaluator.evaluate(free.plan.strategy, {.peaks = true});
  const std::int64_t needs = std::ranges::max(found.peaks, {}, &DeviceMemory::peak).peak.value;
  const IntraCase tight(kWide, with_device_memory(kNetwork, needs * 7 / 10));
  const PlannerAnswer kept = tight.plan();
  EXPECT_TRUE(kept.scored->feasible());
  EXPECT_GT(kept.objective->value, free.objective->value);
  const IntraCase hopeless(kWide, with_device_memory(kNetwork, 2'000'000));
  try {
    (void)hopeless.plan();
    ADD_FAILURE() << "a plan in 2 MB";
  } catch (const InputError& error) {
    EXPECT_THAT(error.what(), HasSubstr("intra: no choice of splits was found to fit into memory"));
  }
}

}  // namespace
}  // namespace pipesim
