#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

#include "tests/refusal.h"
#include "tests/temporary_folder.h"
#include "tools/reports/page/read_input.h"

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
  EXPECT_EQ(page.facts.back(), (PageFact{"error", "-10.0 %"}));
}

TEST(MeasuredPage, RefusesWhatWasNotMeasured) {
  nlohmann::json unmeasured = kExecution;
  unmeasured.erase("measured_s");
  EXPECT_EQ(refusal([&] { measured_page_of(json_text(unmeasured)); }),
            "x.json: /: nothing was measured; allowed: what \"pipesim execute … --json\" prints of a run");
}

const nlohmann::json kStudy = {
    {"pipesim_study", 1},
    {"axes",
     {{{"name", "devices"}, {"values", {8, 16}}}, {{"name", "network"}, {"values", {"slow", "fast"}}}}},
    {"points",
     {{{"at", {0, 1}}, {"time_s", 2.5}, {"recipe", "dp8"}, {"cost_per_hour", 16}},
      {{"at", {1, 0}}, {"error", "nothing fits"}}}}};

TEST(StudyPage, ReadsWhatThereIs) {
  const StudyPage page = study_page_of(json_text(kStudy));
  ASSERT_THAT(page.axes, SizeIs(2));
  EXPECT_THAT(page.axes[0].numbers, ElementsAre(8, 16));
  EXPECT_THAT(page.axes[1].numbers, ElementsAre());
  DrawnStudyPoint first;
  first.at = {0, 1};
  first.seconds = 2.5;
  first.cost_per_hour = 16;
  first.recipe = "dp8";
  DrawnStudyPoint second;
  second.at = {1, 0};
  second.error = "nothing fits";
  EXPECT_THAT(page.points, ElementsAre(first, second));
}

// As `pipesim study` would write it: values as texts with units, and what lies between two of them.
TEST(StudyPage, UnderstandsUnits) {
  const nlohmann::json study = {
      {"pipesim_study", 1},
      {"axes",
       {{{"name", "inter_node.bandwidth"}, {"values", {"25Gb/s", "50Gb/s", "100Gb/s"}}},
        {{"name", "mixed"}, {"values", {"800Gb/s", "1.6Tb/s"}}},
        {{"name", "compute"}, {"values", {"x1", "x2"}}}}},
      {"points",
       {{{"at", {1, 0, 1}}, {"time_s", 2}, {"samples_per_s", 7}, {"fits", false}, {"price_per_hour", 3}}}},
      {"crossovers",
       {{{"axis", "inter_node.bandwidth"},
         {"before", {0, 1, 0}},
         {"low", "25Gb/s"},
         {"high", "37.5Gb/s"},
         {"from", "data-parallel"},
         {"to", "hybrid"}},
        {{"axis", "compute"}, {"value", "x9"}, {"from", "a"}, {"to", "b"}}}}};
  const StudyPage page = study_page_of(json_text(study));
  EXPECT_THAT(page.axes[0].numbers, ElementsAre(25, 50, 100));
  EXPECT_EQ(page.axes[0].unit, "Gb/s");
  EXPECT_THAT(page.axes[1].numbers, ElementsAre());
  EXPECT_THAT(page.axes[2].numbers, ElementsAre(1, 2));
  ASSERT_THAT(page.points, SizeIs(1));
  EXPECT_EQ(page.points[0].cost_per_hour, 3);
  EXPECT_EQ(page.points[0].samples_per_second, 7);
  EXPECT_FALSE(page.points[0].fits);
  ASSERT_THAT(page.crossovers, SizeIs(2));
  EXPECT_EQ(page.crossovers[0].others, "mixed 1.6Tb/s, compute x1");
  EXPECT_DOUBLE_EQ(page.crossovers[0].place, 0.25);  // halfway from 25 to 37.5, which is halfway to 50
  EXPECT_EQ(page.crossovers[1].place, -1);
}

TEST(StudyPage, RefusesIndicesOutsideOfItsAxes) {
  nlohmann::json study = kStudy;
  study["points"][0]["at"] = nlohmann::json::array({0});
  EXPECT_EQ(refusal([&] { study_page_of(json_text(study)); }),
            "x.json: /points/0/at: found 1 indices, allowed: 2, one for each axis");
  study["points"][0]["at"] = nlohmann::json::array({0, 2});
  EXPECT_THAT(refusal([&] { study_page_of(json_text(study)); }),
              testing::StartsWith("x.json: /points/0/at/1: "));
}

TEST(ReportInput, IsToldByTheFile) {
  const TemporaryFolder folder;
  const auto kind = [&](const char* name, const std::string& text) {
    return read_report_input(folder.file(name, text)).index();
  };
  EXPECT_EQ(kind("a", "{\"pipesim_plan\": 1}"), 0U);
  EXPECT_EQ(kind("b", "seconds,proposals,best,chain\n1,2,,\n"), 1U);
  EXPECT_EQ(kind("c", kExecution.dump()), 2U);
  EXPECT_EQ(kind("d", kStudy.dump()), 3U);
  const std::string other = folder.file("e", "{\"x\": 1}");
  EXPECT_EQ(refusal([&] { read_report_input(other); }),
            other +
                ": this is no file for a report; allowed: a plan (search -o), a search's log (search "
                "--search-log) or result (search --json), an execution (execute --json, compare --execute "
                "--json), or a study");
}

}  // namespace
}  // namespace pipesim
