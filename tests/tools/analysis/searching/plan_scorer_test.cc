#include "tools/analysis/searching/plan_scorer.h"

#include <gtest/gtest.h>

#include <utility>

#include "search/candidates.h"
#include "sim/base/deadline.h"
#include "sim/base/rng.h"
#include "tools/analysis/inputs/model_and_topology.h"

namespace pipesim {
namespace {

using PlanPointer = std::shared_ptr<const OpenPlan>;

std::shared_ptr<const Problem> problem_of_microbatches(const std::string& model, std::int32_t microbatches) {
  PlanOptions options;
  options.microbatches = microbatches;
  return std::make_shared<const Problem>(
      Problem{model, open_model(model), "p100-4x4:1", open_topology("p100-4x4:1"), options, {}, "", ""});
}

PlanPointer baseline_of(const std::shared_ptr<const Problem>& problem, const char* name) {
  return std::make_shared<const OpenPlan>(baseline_plan(problem, CostModel(problem->topology), name));
}

// Each plan differs from one of the three before it in few operators, or in all.
std::vector<PlanPointer> changed_plans(const std::shared_ptr<const Problem>& problem, std::size_t count) {
  const CandidateSet candidates(problem->graph, problem->topology);
  Rng rng(5);
  std::vector<PlanPointer> plans{baseline_of(problem, "data-parallel"), baseline_of(problem, "expert"),
                                 baseline_of(problem, "single-device")};
  while (plans.size() < count) {
    OpenPlan plan = *plans[plans.size() - 1 - rng.below(3)];
    const std::size_t operators = problem->graph.operators().size();
    const std::size_t changes = rng.below(8) == 0 ? operators : 1 + rng.below(2);
    for (std::size_t i = 0; i < changes; ++i) {
      const OperatorId op(rng.below(operators));
      plan = with_config(plan, op, candidates.random(op, rng));
    }
    plans.push_back(std::make_shared<const OpenPlan>(std::move(plan)));
  }
  return plans;
}

TEST(PlanScorer, FindsWhatAnEvaluatorFindsInAnyOrder) {
  for (const std::int32_t microbatches : {1, 2}) {
    const auto problem = problem_of_microbatches("alexnet", microbatches);
    const std::vector<PlanPointer> plans = changed_plans(problem, 60);
    const CostModel costs(problem->topology);
    Evaluator evaluator(problem->graph, costs, problem->options);
    std::vector<Evaluation> known;
    for (const PlanPointer& plan : plans) known.push_back(evaluator.evaluate(plan->plan.strategy));
    PlanScorer scorer(problem->topology, nullptr);
    Rng rng(6);
    for (int i = 0; i < 300; ++i) {
      const std::size_t p = rng.below(plans.size());
      const Nanoseconds below =
          rng.below(2) == 0 ? PlanScorer::kNoLimit : known[rng.below(plans.size())].time;
      const std::optional<Evaluation> found = scorer.score(plans[p], below);
      ASSERT_EQ(found.has_value(), known[p].time < below) << "step " << i;
      if (found) {
        ASSERT_EQ(*found, known[p]) << "step " << i;
      }
    }
    EXPECT_EQ(scorer.peaks(plans.back()),
              evaluator.evaluate(plans.back()->plan.strategy, {.peaks = true}).peaks);
  }
}

TEST(PlanScorer, IsAsUsableAsBeforeAfterItsDeadline) {
  const auto problem = problem_of_microbatches("gpt:layers=12", 1);
  const std::vector<PlanPointer> plans = changed_plans(problem, 4);
  PlanScorer scorer(problem->topology, nullptr), other(problem->topology, nullptr);
  const std::optional<Evaluation> first = scorer.score(plans[0]);
  const Deadline passed(0);
  {
    const KeepTo keep(passed);
    EXPECT_THROW((void)scorer.score(plans[1]), OutOfTime);
  }
  EXPECT_EQ(scorer.score(plans[1]), other.score(plans[1]));
  EXPECT_EQ(scorer.score(plans[0]), first);
}

}  // namespace
}  // namespace pipesim
