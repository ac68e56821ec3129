#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

#include "search/baselines/baselines.h"
#include "tests/fake_clock.h"
#include "tests/search/search_case.h"
#include "tools/analysis/plans/report_in_time.h"
#include "tools/render/plans/plan_report_text.h"

namespace pipesim {
namespace {

using Json = nlohmann::json;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr const char* kReported = "gpt:layers=3,hidden=64,heads=4,vocab=96,sequence=16,positions=16,batch=16";

// Every moment at which the time may be over, from nothing known to all.
TEST(ReportInTime, TellsWhatThereWasTimeFor) {
  const SearchCase c(kReported, "p100-4x4:2");
  for (const Recompute::Kind again : {Recompute::Kind::None, Recompute::Kind::Full}) {
    PlanOptions options;
    options.microbatches = 12;
    options.recompute.kind = again;
    Evaluator evaluator(c.graph, c.costs, options);
    const BoundStrategy strategy = evaluator.contents().bind(baseline_strategy("expert", c.graph, c.costs));
    const Evaluation scored = evaluator.evaluate(strategy);
    const PlanReport full = report_plan(evaluator, strategy);
    int times = 0, complete = 0;
    for (std::int64_t looks = 1; complete == 0; looks += 1 + looks / 4) {
      const FakeClock clock;
      const Deadline deadline = clock.after(looks);
      const KeepTo keep(deadline);
      const PlanReport report = report_in_time(evaluator, strategy, scored);
      EXPECT_EQ(report.iteration_time, full.iteration_time);
      EXPECT_DOUBLE_EQ(report.samples_per_second, full.samples_per_second);
      const std::string text = to_text(report, c.topology);
      const Json json = json_of(report, c.topology);
      EXPECT_EQ(json["iteration_time_s"], to_seconds(full.iteration_time).value);
      if (report.in_full) {
        ++complete;
        EXPECT_EQ(report.num_tasks, full.num_tasks);
        EXPECT_FALSE(json.contains("simulated_in_full"));
        continue;
      }
      EXPECT_EQ(json["simulated_in_full"], false);
      EXPECT_TRUE(json["critical_path"].is_null() && json["num_tasks"].is_null());
      EXPECT_THAT(text, HasSubstr("not in full"));
      EXPECT_THAT(text, Not(HasSubstr("critical path  ")));
      EXPECT_TRUE(json["peak_memory_bytes"].is_null() && json["compute_s"].is_null());
      ++times;
    }
    EXPECT_GT(times, 0);
  }
}

TEST(ReportInTime, WithoutAScoreThereIsNothingToTell) {
  const SearchCase c(kReported, "p100-4x4:1");
  Evaluator evaluator(c.graph, c.costs, {});
  const BoundStrategy strategy = evaluator.contents().bind(c.single().strategy);
  const FakeClock clock;
  const Deadline deadline = clock.after(0);
  const KeepTo keep(deadline);
  EXPECT_THROW(report_in_time(evaluator, strategy, std::nullopt), OutOfTime);
}

}  // namespace
}  // namespace pipesim
