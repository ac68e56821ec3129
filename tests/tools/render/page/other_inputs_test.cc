#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

#include "sim/base/file_kind.h"
#include "tests/refusal.h"
#include "tests/temporary_folder.h"
#include "tests/tools/render/page/drawn_inputs.h"
#include "tools/render/page/read_input.h"
#include "tools/render/whatif/study_json.h"

namespace pipesim {
namespace {

using testing::ElementsAre;
using testing::SizeIs;

SearchCourse course_of(const std::string& rows) {
  return search_course_of_log(std::string(kSearchLogHeader) + "\n" + rows, "log.csv");
}

TEST(SearchCourse, IsReadFromALog) {
  EXPECT_THAT(course_of("0.016,16,,\n1.021,1311,0.1612,2\n").moments,
              ElementsAre(SearchMoment{0.016, 16, std::nullopt, -1}, SearchMoment{1.021, 1311, 0.1612, 2}));
  // A search that goes on is in the middle of a row.
  EXPECT_THAT(course_of("0.016,16,0.2,0\n1.02").moments, SizeIs(1));
}

TEST(SearchCourse, RefusesDamagedLogs) {
  EXPECT_EQ(refusal([] { course_of("0.016,16,0.2\n"); }),
            "log.csv:2: found 3 fields, allowed: 4, seconds,proposals,best,chain");
  EXPECT_EQ(refusal([] { course_of("0.016,16,0.2,0\nx,16,0.2,0\n"); }),
            "log.csv:3: seconds \"x\", allowed: a number from 0 on");
  EXPECT_EQ(refusal([] { course_of("2,16,0.2,0\n1,20,0.2,0\n"); }),
            "log.csv:3: 1 seconds, allowed: no less than the row before, 2");
  EXPECT_EQ(refusal([] { course_of(""); }),
            "log.csv: this log of a search has no rows; allowed: at least one");
}

JsonValue json_text(const nlohmann::json& json) { return JsonDocument::parse(json.dump(), "x.json"); }

const nlohmann::json kExecution = {
    {"backend", "cpu"},
    {"predicted_s", 0.9},
    {"measured_s", {{"median", 1.0}, {"low", 0.8}, {"high", 1.1}}},
    {"operators",
     {{{"name", "near"}, {"tasks", 1}, {"predicted_s", 0.5}, {"measured_s", 0.51}},
      {{"name", "far"}, {"tasks", 2}, {"predicted_s", 0.4}, {"measured_s", 0.1}}}}};

TEST(MeasuredPage, HasWhatDiffersMostFirst) {
  const MeasuredPage page = measured_page_of(json_text(kExecution));
  ASSERT_THAT(page.operators, SizeIs(2));
  EXPECT_EQ(page.operators.front(), (MeasuredPair{"far", 0.4, 0.1, std::nullopt, std::nullopt, 2}));
  EXPECT_THAT(page.iterations, ElementsAre(MeasuredPair{"iteration", 0.9, 1.0, 0.8, 1.1, 0}));
  EXPECT_EQ(page.facts.back(), (PageFact{"error", "-10.0 %, predicted too short"}));
}

TEST(MeasuredPage, RefusesWhatWasNotMeasured) {
  nlohmann::json unmeasured = kExecution;
  unmeasured.erase("measured_s");
  EXPECT_EQ(refusal([&] { measured_page_of(json_text(unmeasured)); }),
            "x.json: /: nothing was measured; allowed: what \"pipesim execute … --json\" prints of a run");
}

TEST(ReportInput, IsToldByTheFile) {
  const TemporaryFolder folder;
  const auto kind = [&](const char* name, const std::string& text) {
    return read_report_input(folder.file(name, text)).index();
  };
  EXPECT_EQ(kind("a", "{\"pipesim_plan\": 1}"), 0U);
  EXPECT_EQ(kind("b", "seconds,proposals,best,chain\n1,2,,\n"), 1U);
  EXPECT_EQ(kind("c", kExecution.dump()), 2U);
  EXPECT_EQ(kind("d", json_of(drawn_study()).dump()), 3U);
  EXPECT_EQ(kind("f", trace_of_execution()), 2U);
  const std::string other = folder.file("e", "{\"x\": 1}");
  EXPECT_EQ(
      refusal([&] { read_report_input(other); }),
      other +
          ": this is no file for a report; allowed: a plan (search -o), a search's log (search "
          "--search-log) or result (search --json), an execution (execute --json, execute --trace, compare "
          "--execute --json), or a study (whatif -o)");
}

}  // namespace
}  // namespace pipesim
