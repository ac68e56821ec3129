#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

#include "models/zoo/zoo.h"
#include "tests/tools/command_line.h"
#include "tools/render/execution/execution_report_text.h"
#include "tools/render/execution/plan_comparison_text.h"
#include "tools/running/execution_report.h"
#include "tools/running/plan_comparison.h"
#include "topologies/presets/presets.h"

namespace pipesim {
namespace {

using testing::HasSubstr;
using testing::Not;

TEST(ExecutionReport, SaysWhetherLinksWereEmulated) {
  const Subject subject{make_zoo_model("lenet:batch=4"), make_topology("levels:2@10GB/s"), {}, {}};
  PlanComparison comparison{{{"a plan", ExecutionReport{}}}, {}};
  ExecutionReport& report = comparison.plans.front().report;
  report.backend = "host";
  report.measured.steps = 1;
  report.measured.median = 1000;
  EXPECT_THAT(to_text(report, subject), Not(HasSubstr("emulated")));
  EXPECT_FALSE(json_of(report, subject).contains("links_emulated"));
  EXPECT_THAT(to_text(comparison), Not(HasSubstr("emulated")));
  report.links_emulated = true;
  EXPECT_THAT(to_text(report, subject),
              HasSubstr("  links                emulated, as those of levels:2@10GB/s\n"));
  EXPECT_TRUE(json_of(report, subject).at("links_emulated").get<bool>());
  EXPECT_THAT(to_text(comparison), HasSubstr("links between the devices were emulated"));
  EXPECT_TRUE(json_of(comparison).at("plans")[0].at("links_emulated").get<bool>());
}

TEST(ExecutionReport, OfSeveralPlansSaysWhichLeaveDevicesIdle) {
  const Outcome text = pipesim_run({"compare", "--execute", "--model", "lenet:batch=3", "--topology", "cpu:4",
                                    "--backend", "emulated", "--steps", "2", "--warmup", "0"});
  ASSERT_EQ(text.status, 0) << text.err;
  EXPECT_THAT(text.out, HasSubstr("  data-parallel: 3 of 4 devices used: batch 3 can't be split in 4\n"));
  EXPECT_THAT(text.out, Not(HasSubstr("single-device: ")));
}

}  // namespace
}  // namespace pipesim
