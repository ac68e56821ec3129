#include <gmock/gmock.h>

#include <nlohmann/json.hpp>
#include <numeric>

#include "search/baselines/baselines.h"
#include "tests/search/search_case.h"
#include "tests/tools/command_line.h"
#include "tools/analysis/searching/why_plan.h"
#include "tools/render/plans/plan_difference_text.h"
#include "tools/render/searching/why_plan_text.h"

namespace pipesim {
namespace {

using testing::EndsWith;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::SizeIs;
using Json = nlohmann::json;

std::vector<std::string> search_arguments(std::vector<std::string> more) {
  std::vector<std::string> args{"search", "--model", "lenet", "--topology", "p100-4x4:1"};
  args.insert(args.end(), more.begin(), more.end());
  return args;
}

std::string search_text(std::vector<std::string> more) {
  const Outcome result = pipesim_run(search_arguments(std::move(more)));
  EXPECT_EQ(result.status, 0) << result.err;
  return result.out;
}

Json search_json(std::vector<std::string> more) {
  more.emplace_back("--json");
  return Json::parse(search_text(std::move(more)));
}

// Everything about LeNet under the strategy of one baseline.
struct Explained {
  SearchCase c{"lenet", "p100-4x4:1"};
  Evaluator evaluator{c.graph, c.costs, {}};
  std::vector<Baseline> baselines = score_baselines(evaluator);
  SearchOutcome outcome;

  explicit Explained(std::string_view name) {
    for (const Baseline& b : baselines) {
      if (b.name == name) outcome.best = b.scored;
    }
  }
  WhyPlan why(std::int64_t tries) {
    return why_plan(evaluator, c.candidates, baselines, *outcome.best, {0, tries});
  }
};

TEST(WhyPlan, TextHasFiguresChangesAndOneMoreChange) {
  const std::string text = search_text({"--algorithm", "expert", "--proposals", "500"});
  EXPECT_THAT(
      text,
      HasSubstr("\n\nagainst data-parallel, the fastest baseline\n"
                "                                          data-parallel  this plan  difference\n"
                "  iteration                                     88.4 us     171 us    +82.9 us   +93.8 %\n"
                "  critical path, compute                        49.9 us    59.3 us    +9.35 us   +18.7 %\n"
                "  critical path, communication                  13.1 us     111 us    +98.3 us  +748.1 %\n"
                "  critical path, waiting                        25.3 us     608 ns    -24.7 us   -97.6 %\n"
                "  compute, busiest device                       81.2 us    79.3 us    -1.88 us    -2.3 %\n"
                "  compute, mean of devices                      81.2 us    79.3 us    -1.88 us    -2.3 %\n"
                "  links busy, busiest device                    31.2 us    31.1 us      -71 ns    -0.2 %\n"
                "  links busy, mean of devices                   31.2 us    31.1 us      -71 ns    -0.2 %\n"
                "  moved by all devices, forward                     0 B     432 kB     +432 kB\n"
                "  moved by all devices, backward                    0 B     432 kB     +432 kB\n"
                "  moved by all devices, gradient sync           1.48 MB    68.5 kB    -1.41 MB   -95.4 %\n"
                "  moved by all devices, inner statistics            0 B    1.54 kB    +1.54 kB\n"
                "  peak memory, fullest device                   1.42 MB     966 kB     -452 kB   -31.9 %\n"
                "\n"
                "  split before -> now                 operators           compute  compute time, all "
                "devices  time "
                "on links, all links  such as\n"
                "  b/4 -> o/4 on 4 devices from 0              2  31.4 % -> 29.8 %          102 us -> 94.5 "
                "us        "
                " 207 us -> 95.2 us  linear1, linear2\n"
                "  b/4 -> b/2 o/2 on 4 devices from 0          1  13.4 % -> 13.8 %         43.6 us -> 43.6 "
                "us        "
                "13.4 us -> 5.38 us  classifier\n"));
  EXPECT_THAT(
      text, HasSubstr("  unchanged                                   4  48.5 % -> 49.6 %           157 us -> "
                      "157 us         29.2 us -> 150 us  conv1, pool1, …\n"));
  EXPECT_THAT(
      text,
      EndsWith(
          "\n\none more change would help (200 of 200 tried)\n"
          "  operator    saves          split now -> then\n"
          "  linear1   25.4 us  14.8 %  o/4 on 4 devices from 0 -> o/2 on 2 devices from "
          "0\n"
          "  linear2   15.5 us   9.1 %  o/4 -> x4 copies on 4 devices from 0\n"
          "  loss      9.64 us   5.6 %  b/2 v/2 on 4 devices from 0 -> b/2 x2 copies on 4 devices from 0\n"));
}

TEST(WhyPlan, SaysWhenThePlanIsTheBaseline) {
  EXPECT_THAT(search_text({"--algorithm", "data-parallel", "--proposals", "500"}),
              EndsWith("\n\nthe plan is data-parallel, the fastest baseline\n"
                       "no single change helps (200 of 200 tried)\n"));
  const Json json = search_json({"--algorithm", "data-parallel", "--proposals", "500"});
  EXPECT_EQ(json["against_baseline"], Json::parse(R"({"baseline": "data-parallel", "same_plan": true})"));
  EXPECT_EQ(json["one_more_change"], Json::parse(R"({"tried": 200, "of": 200, "changes": []})"));
}

TEST(WhyPlan, JsonHasTheSameFacts) {
  const Json json = search_json({"--algorithm", "expert", "--proposals", "500"});
  const Json& against = json["against_baseline"];
  EXPECT_EQ(against["baseline"], "data-parallel");
  EXPECT_EQ(against["same_plan"], false);
  const Json& figures = against["figures"];
  EXPECT_EQ(figures["iteration_time_s"]["plan"], json["iteration_time_s"]);
  EXPECT_EQ(figures["iteration_time_s"]["baseline"], json["baselines"][1]["iteration_time_s"]);
  EXPECT_EQ(figures["peak_memory_bytes"]["plan"], json["peak_memory_bytes"]["gpu0"]);
  for (const char* key :
       {"critical_compute_s", "critical_communication_s", "critical_waiting_s", "compute_most_s",
        "compute_mean_s", "links_busy_most_s", "links_busy_mean_s", "forward_transfer_bytes",
        "backward_transfer_bytes", "gradient_sync_bytes", "inner_reduce_bytes"}) {
    EXPECT_TRUE(figures.contains(key)) << key;
  }
  ASSERT_THAT(against["changes"], SizeIs(3));
  const Json& first = against["changes"][0];
  EXPECT_EQ(first["from"], "b/4 on 4 devices from 0");
  EXPECT_EQ(first["to"], "o/4 on 4 devices from 0");
  EXPECT_EQ(first["operators"], Json({"linear1", "linear2"}));
  EXPECT_LT(first["on_links_s"]["plan"], first["on_links_s"]["baseline"]);
  EXPECT_EQ(against["unchanged"]["operators"], 4);
  const Json& more = json["one_more_change"]["changes"];
  ASSERT_THAT(more, SizeIs(3));
  EXPECT_EQ(more[0]["operator"], "linear1");
  EXPECT_EQ(more[0]["from"], "o/4 on 4 devices from 0");
  EXPECT_EQ(more[0]["to"], "o/2 on 2 devices from 0");
  EXPECT_EQ(more[0]["devices"], Json({"gpu0", "gpu1"}));
  EXPECT_NEAR(more[0]["iteration_time_s"].get<double>() + more[0]["saves_s"].get<double>(),
              json["iteration_time_s"].get<double>(), 1e-12);
}

// With a budget in proposals, nothing depends on the clock.
TEST(WhyPlan, SameSeedSameReport) {
  const auto report = [](const char* threads) {
    Json json =
        search_json({"--algorithm", "mcmc", "--proposals", "300", "--seed", "4", "--threads", threads});
    json.erase("search");
    for (Json& improvement : json["history"]) improvement.erase("wall_time_s");
    return json;
  };
  const Json one = report("1");
  EXPECT_EQ(one, report("1"));
  EXPECT_EQ(one, report("2"));
  EXPECT_EQ(one["one_more_change"]["tried"], 200);
}

TEST(WhyPlan, SavesWhatTheChangeSaves) {
  Explained e("model-parallel");
  const WhyPlan why = e.why(0);
  EXPECT_EQ(why.more.tried, why.more.all);
  EXPECT_THAT(why.more.best, SizeIs(3));
  for (const SingleChange& change : why.more.best) {
    Strategy changed = e.outcome.best->plan;
    changed[change.op.index()] = e.c.candidates.config(change.op, change.index);
    EXPECT_EQ(e.evaluator.evaluate(changed), change.evaluation);
    EXPECT_LT(change.evaluation.time, e.outcome.best->evaluation.time);
  }
}

TEST(WhyPlan, ComparesWithTheNearestBaselineWhereNoneFits) {
  Explained e("expert");
  Bytes overflow(1000);
  for (Baseline& b : e.baselines) {
    b.infeasible = "gpu0 needs 17 GB, has 16 GB";
    b.scored->evaluation.overflow = overflow;
    overflow -= Bytes(100);
  }
  e.baselines.back().scored.reset();
  EXPECT_THAT(to_text(e.why(1)), HasSubstr("against model-parallel, the nearest baseline, which does not fit "
                                           "(gpu0 needs 17 GB, has 16 GB)\n"));
  EXPECT_EQ(json_of(e.why(1))["against_baseline"]["infeasible"], "gpu0 needs 17 GB, has 16 GB");
  e.baselines.clear();
  EXPECT_THAT(to_text(e.why(1)), Not(HasSubstr("against")));
  EXPECT_TRUE(json_of(e.why(1))["against_baseline"].is_null());
}

TEST(TryBudget, IsATenthOfTheSearch) {
  SearchOutcome outcome;
  outcome.proposals = 5'000;
  outcome.seconds = 30;
  const auto expect = [&](SearchBudget budget, double seconds, std::int64_t tries) {
    EXPECT_EQ(try_budget(budget, outcome).seconds, seconds);
    EXPECT_EQ(try_budget(budget, outcome).tries, tries);
  };
  expect({30, 0}, 3, 0);
  expect({60, 9'000}, 3, 0);
  expect({0, 5'000}, 0, 500);
  outcome.proposals = 100;
  outcome.seconds = 0.1;
  expect({0.1, 0}, 0.2, 0);
  expect({0, 1'000}, 0, 200);
  expect({0, 100}, 0, 100);
}

// What operators cost adds up to what the plan costs.
TEST(PlanCosts, AddUp) {
  for (const std::int32_t microbatches : {1, 3}) {
    const SearchCase c("gpt:batch=16,layers=2,sequence=16,hidden=64,heads=4,vocab=97", "p100-4x4");
    PlanOptions options;
    options.microbatches = microbatches;
    Evaluator evaluator(c.graph, c.costs, options);
    for (const std::string_view name : baseline_names()) {
      const PlanCosts costs =
          plan_costs(evaluator, evaluator.contents().bind(baseline_strategy(name, c.graph, c.costs)));
      OperatorCosts sum;
      for (const OperatorCosts& op : costs.operators) sum += op;
      const PlanReport& report = costs.report;
      EXPECT_EQ(sum.compute, std::accumulate(report.compute.begin(), report.compute.end(), Nanoseconds{0}));
      EXPECT_EQ(sum.moved, std::accumulate(costs.moved.begin(), costs.moved.end(), Bytes(0)));
      EXPECT_EQ(sum.critical, report.iteration_time);
    }
  }
}

TEST(PlanCosts, MostCriticalFirst) {
  const std::vector<OperatorCosts> costs{
      {50, 0, Bytes(0), 3}, {10, 0, Bytes(0), 7}, {60, 0, Bytes(0), 3}, {60, 9, Bytes(9), 3}};
  EXPECT_THAT(most_critical_first(costs),
              testing::ElementsAre(OperatorId(1), OperatorId(2), OperatorId(3), OperatorId(0)));
}

TEST(PlanDifference, ChangesInWords) {
  const SearchCase c("lenet", "p100-4x4");
  const Operator& op = c.graph.operators()[0];
  const auto config = [&](const char* factor, std::vector<std::int32_t> devices) {
    ParallelConfig result = single_device(op, DeviceId(0));
    result.devices.clear();
    for (const std::int32_t d : devices) result.devices.emplace_back(d);
    result.degrees[static_cast<std::size_t>(op.factor(factor))] = static_cast<std::int32_t>(devices.size());
    return result;
  };
  const ParallelConfig block = config("n", {0, 1, 2, 3}), nodes = config("n", {0, 4, 8, 12});
  EXPECT_EQ(change_words(op, block, config("o", {0, 1, 2, 3})), "n/4 -> o/4 on 4 devices from 0");
  EXPECT_EQ(change_words(op, block, config("o", {4, 5})),
            "n/4 on 4 devices from 0 -> o/2 on 2 devices from 4");
  EXPECT_EQ(change_words(op, block, single_device(op, DeviceId(2))),
            "n/4 on 4 devices from 0 -> whole on device 2");
  EXPECT_EQ(change_words(op, block, nodes),
            "n/4 on 4 devices from 0 -> n/4 on 4 devices from 0 (other devices)");
  EXPECT_EQ(change_words(op, block, config("n", {0, 2, 1, 3})),
            "n/4 on 4 devices from 0 -> n/4 on 4 devices from 0 (in another order)");
}

// A table that is too long ends in a line that stands for the rest.
TEST(PlanDifference, LeavesOutWhatIsTooMuch) {
  Explained e("expert");
  const WhyPlan why = e.why(1);
  const std::string text = to_text(*why.difference, e.c.graph, {"before", "now"}, 1);
  EXPECT_THAT(text, HasSubstr("  b/4 -> o/4 on 4 devices from 0          2  "));
  EXPECT_THAT(text, Not(HasSubstr("b/4 -> b/2")));
  EXPECT_THAT(text,
              HasSubstr("  … and 2 more                            2  20.1 % -> 20.6 %         65.2 us -> "
                        "65.3 us        13.4 us -> 8.46 us  classifier, loss\n"));
}

TEST(OperatorGroups, GoByTheirComputeAndThenByWords) {
  const std::vector<std::string> words{"b", "a", "", "c", "a"};
  const std::vector<Nanoseconds> compute{4, 1, 100, 7, 3};
  const std::vector<OperatorGroup> groups = group_operators(words, compute);
  ASSERT_THAT(groups, SizeIs(3));
  EXPECT_EQ(groups[0].words, "c");
  EXPECT_EQ(groups[1].words, "a");
  EXPECT_EQ(groups[1].compute, 4);
  EXPECT_THAT(groups[1].operators, testing::ElementsAre(OperatorId(1), OperatorId(4)));
  EXPECT_EQ(groups[2].words, "b");
  EXPECT_THAT(group_operators({}, {}), IsEmpty());
}

}  // namespace
}  // namespace pipesim
