#include <fmt/format.h>
#include <gtest/gtest.h>

#include <functional>
#include <string>

#include "search/alpa/alpa.h"
#include "search/baselines/baselines.h"
#include "search/joint/joint_search.h"
#include "search/lower_bound/lower_bound.h"
#include "search/pipelines/cuts.h"
#include "search/pipelines/layer_graph.h"
#include "search/planners/dapple.h"
#include "search/planners/machine_levels.h"
#include "search/planners/pipedream.h"
#include "search/planners/pipeline_trials.h"
#include "sim/base/errors.h"
#include "tests/fake_clock.h"
#include "tests/search/search_case.h"
#include "tests/seeds.h"

namespace pipesim {
namespace {

constexpr const char* kTimedGpt = "gpt:layers=3,hidden=64,heads=4,vocab=96,sequence=16,positions=16,batch=16";

// Calls `work` with deadlines that pass at the first look, the second, …, further and further on, until it
// ends in time. It must have stopped a few looks after each of them. Returns how often it was stopped.
int stop_everywhere(const std::function<void()>& work, std::int64_t most_looks_after = 24,
                    std::int64_t growth = 3) {
  int stopped = 0;
  for (std::int64_t looks = 0;; looks += 1 + looks / growth) {
    const FakeClock clock;
    const Deadline deadline = clock.after(looks);
    const KeepTo keep(deadline);
    const std::int64_t before = clock.looks();
    try {
      work();
    } catch (const OutOfTime&) {
    }
    const std::int64_t spent = clock.looks() - before;
    EXPECT_LE(spent, looks + most_looks_after) << "the deadline passed after " << looks << " looks";
    if (spent < looks || testing::Test::HasFailure()) return stopped;
    ++stopped;
  }
}

PlanOptions in_microbatches(std::int32_t number) {
  PlanOptions options;
  options.microbatches = number;
  return options;
}

TEST(OutOfTime, EvaluatorsStopSoonAndScoreAsBeforeAfterwards) {
  for (const std::int32_t microbatches : {1, 12}) {
    for (const std::size_t fold_from : {std::size_t{0}, std::size_t{1} << 40}) {
      const SearchCase c(kTimedGpt, "p100-4x4:2");
      const PlanOptions options = in_microbatches(microbatches);
      for (const std::string_view name : baseline_names()) {
        const Strategy strategy = baseline_strategy(name, c.graph, c.costs);
        const Evaluation whole =
            *Evaluator(c.graph, c.costs, options).evaluate(strategy, {.extent = Extent::All}).cost;
        Evaluator evaluator(c.graph, c.costs, options, fold_from);
        const int stopped = stop_everywhere([&] { evaluator.evaluate(strategy); });
        EXPECT_GT(stopped, 5) << name;
        EXPECT_EQ(evaluator.evaluate(strategy), whole) << name;
        const EvaluationRequest in_full{.extent = Extent::All};
        EXPECT_GT(stop_everywhere([&] { evaluator.evaluate(strategy, in_full); }), 5) << name;
        EXPECT_EQ(evaluator.evaluate(strategy, in_full).cost, whole) << name;
      }
    }
  }
}

TEST(OutOfTime, BaselinesThatWereNotScoredSaySo) {
  const SearchCase c(kTimedGpt, "p100-4x4:2");
  Evaluator evaluator(c.graph, c.costs, {});
  std::size_t some = 0;
  stop_everywhere(
      [&] {
        const std::vector<Baseline> baselines = score_baselines(evaluator);
        std::size_t scored = 0;
        ASSERT_EQ(baselines.size(), baseline_names().size());
        for (const Baseline& b : baselines) {
          EXPECT_EQ(b.scored.has_value(), b.infeasible != kNotScored);
          scored += b.scored ? 1 : 0;
        }
        some += scored > 0 && scored < baselines.size() ? 1 : 0;
        EXPECT_EQ(scored > 0, fastest_baseline(baselines) != nullptr);
      },
      24, 40);  // all take about as many looks
  EXPECT_GT(some, 0U);
}

TEST(OutOfTime, LowerBoundsStop) {
  const SearchCase c(kTimedGpt, "p100-4x4:2");
  EXPECT_GT(stop_everywhere([&] { static_cast<void>(lower_bound(c.graph, c.costs, {})); }), 5);
}

// What it has by then is no worse than where it began, once that was scored.
TEST(OutOfTime, SearchesOverSplitsTellWhatTheyHave) {
  for (const std::int32_t microbatches : {1, 4}) {
    const SearchCase c(kTimedGpt, "p100-4x4:1");
    const PlanOptions options = in_microbatches(microbatches);
    SearchStart start{"data-parallel", baseline_strategy("data-parallel", c.graph, c.costs)};
    start.evaluation = Evaluator(c.graph, c.costs, options).evaluate(start.strategy);
    int found = 0, begun = 0;
    stop_everywhere(
        [&] {
          McmcOptions how;
          how.budget.proposals = microbatches == 1 ? 600 : 60;  // those in full take longer
          how.keep = [&](const SearchState&, bool) { ++begun; };
          const SearchOutcome outcome = mcmc(c.graph, c.costs, options, c.candidates, {start}, how, {});
          if (!outcome.best) return;
          ++found;
          EXPECT_EQ(Evaluator(c.graph, c.costs, options).evaluate(outcome.best->plan),
                    outcome.best->evaluation);
          EXPECT_LE(outcome.best->evaluation.time, start.evaluation->time);
        },
        200);  // eight chains, and plans that are scored once more here
    EXPECT_GT(found, 2);
    EXPECT_GT(begun, 2);
  }
}

TEST(OutOfTime, JointSearchesTellWhatTheyHave) {
  const Topology topology = make_topology("levels:4@1GB/s,2@0.3GB/s");
  const CostModel costs(topology);
  const auto model_of = [](std::int32_t microbatches,
                           const SequenceDivision& /*sequence*/) -> std::optional<OperatorGraph> {
    constexpr std::int32_t kBatch = 64;
    if (kBatch % microbatches != 0) return std::nullopt;
    return make_zoo_model(fmt::format(
        "gpt:layers=3,hidden=64,heads=4,vocab=96,sequence=16,positions=16,batch={}", kBatch / microbatches));
  };
  JointEvaluator first(model_of, costs, PlanOptions());
  const CandidateSet candidates(*first.graph(4), topology);
  const JointMoves moves(candidates, 64);
  PipelinedStrategy made = gpipe_strategy(*first.graph(4), costs, {2, 1, "1f1b"});
  const JointPlan start{{}, 4, std::move(made.pipeline), std::move(made.meshes), {}};
  const Nanoseconds before = first.evaluate(start)->time;
  int found = 0;
  stop_everywhere([&] {
    JointEvaluator evaluator(model_of, costs, PlanOptions());
    JointOptions options;
    options.budget.proposals = 200;
    const JointOutcome outcome = search_jointly(evaluator, moves, {start}, options, {});
    EXPECT_LE(outcome.best.evaluation.time, before);
    ++found;
  });
  EXPECT_GT(found, 3);
}

TEST(OutOfTime, PlannersStopOrTellWhatTheyHave) {
  const SearchCase c(kTimedGpt, "p100-4x4:2");
  const PlanOptions options = in_microbatches(8);
  std::size_t some = 0;
  stop_everywhere([&] {
    std::size_t not_simulated = 0;
    const auto trials = try_pipelines(c.graph, c.costs, options, {"gpipe", "1f1b"}, {}, {}, &not_simulated);
    EXPECT_FALSE(trials.empty());
    some += not_simulated > 0 ? 1 : 0;
  });
  EXPECT_GT(some, 0U);
  EXPECT_GT(stop_everywhere([&] { static_cast<void>(alpa(c.graph, c.costs, options, 6, {})); }), 5);
  const LayerGraph layers = without_inputs(layers_of(c.graph, c.costs, DeviceId(0)));
  EXPECT_GT(stop_everywhere([&] {
              const auto cuts = cuts_of(layers, 3'000);
              static_cast<void>(pipedream(*cuts, machine_levels(c.topology), {}));
            }),
            5);
  const DappleProblem problem{&layers, c.graph.batch(), {0, 0, 0, 0, 1, 1, 1, 1}, 128, 2};
  EXPECT_GT(stop_everywhere([&] { static_cast<void>(dapple(problem, {1, 8, Seconds(1e9), 2, 0})); }), 5);
}

TEST(OutOfTime, ExhaustiveSearchesTellWhatTheyHave) {
  const SearchCase c("rnnlm:batch=8,steps=1,layers=1,hidden=16,vocab=40", "levels:2@10GB/s");
  int found = 0;
  stop_everywhere([&] {
    const SearchOutcome outcome = c.exhaustive({c.single()});
    found += outcome.best ? 1 : 0;
    EXPECT_FALSE(is_late() && outcome.proven);
  });
  EXPECT_GT(found, 0);
}

// With all microbatches and devices simulated, and with as few as prove the rest.
TEST(OutOfTime, ScoresTellPeaksAsAllTasksDo) {
  for (const char* model : {kTimedGpt,
                            "mixtral-8x7b:layers=1,batch=16,hidden=64,heads=4,kv_heads=4,ffn=128,vocab=96,"
                            "sequence=16,experts=4"}) {
    for (const std::int32_t microbatches : {1, 12}) {
      const SearchCase c(model, "p100-4x4:2");
      const PlanOptions options = in_microbatches(microbatches);
      for (const std::string_view name : baseline_names()) {
        const Strategy strategy = baseline_strategy(name, c.graph, c.costs);
        Evaluator whole(c.graph, c.costs, options), few(c.graph, c.costs, options, 0);
        const Evaluated evaluated = whole.evaluate(strategy, {.extent = Extent::All, .part = Labels::Leave});
        const Evaluated found = few.evaluate(strategy, {.peaks = true});
        EXPECT_EQ(found.cost, evaluated.cost);
        const std::vector<DeviceMemory>& peaks = found.peaks;
        const auto all = peak_memory(evaluated.part->expanded(), evaluated.part->timeline());
        ASSERT_EQ(peaks.size(), all.size());
        for (std::size_t d = 0; d < all.size(); ++d) {
          EXPECT_EQ(peaks[d].peak, all[d].peak) << model << " " << name << " device " << d;
          EXPECT_EQ(peaks[d].at_peak, all[d].at_peak) << model << " " << name << " device " << d;
        }
      }
    }
  }
}

}  // namespace
}  // namespace pipesim
