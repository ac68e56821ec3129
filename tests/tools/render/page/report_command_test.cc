#include <gmock/gmock.h>

#include <filesystem>
#include <regex>
#include <set>

#include "tests/tools/command_line.h"
#include "tests/tools/render/page/unpack_page.h"
#include "tools/render/page/report_page.h"

namespace pipesim {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;
using testing::UnorderedElementsAre;

std::string pipeline_plan(const TemporaryFolder& folder) {
  std::string plan = folder.path("gpt.plan.json");
  EXPECT_EQ(pipesim_run({"simulate", "--model", "gpt:layers=2,batch=4", "--topology", "p100-4x4:1",
                         "--baseline", "data-parallel", "--stages", "2", "--microbatches", "4", "-o", plan})
                .status,
            0);
  return plan;
}

TEST(ReportCommand, WritesOnePageThatNeedsNothingElse) {
  const TemporaryFolder folder;
  const std::string page = folder.path("page.html");
  const Outcome outcome = pipesim_run({"report", pipeline_plan(folder), "-o", page});
  EXPECT_EQ(outcome, (Outcome{0, page + ": a page of 1 part\n", ""}));
  const std::string html = read_file(page);
  EXPECT_THAT(html, AllOf(StartsWith("<!doctype html>"), Not(HasSubstr("@PIPESIM_REPORT_DATA@")),
                          Not(HasSubstr("src=")), Not(HasSubstr("@import"))));
  // Namespaces are names, not places.
  std::string rest = std::regex_replace(html, std::regex("http://www\\.w3\\.org/[0-9a-zA-Z/]*"), "");
  EXPECT_THAT(rest, AllOf(Not(HasSubstr("http://")), Not(HasSubstr("https://"))));
}

TEST(ReportCommand, IsTheSameEachTime) {
  const TemporaryFolder folder;
  const std::string plan = pipeline_plan(folder), once = folder.path("1.html"), again = folder.path("2.html");
  ASSERT_EQ(pipesim_run({"report", plan, "-o", once}).status, 0);
  ASSERT_EQ(pipesim_run({"report", plan, "-o", again}).status, 0);
  EXPECT_EQ(read_file(once), read_file(again));
}

// Every element that is opened is closed, in order.
std::string unbalanced_element(const std::string& svg) {
  std::vector<std::string> open;
  static const std::regex kTag("<(/?)([a-z]+)([^>]*)>");
  for (auto at = std::sregex_iterator(svg.begin(), svg.end(), kTag); at != std::sregex_iterator(); ++at) {
    const std::smatch& tag = *at;
    if (tag[1].length() > 0) {
      if (open.empty() || open.back() != tag[2]) return tag[0];
      open.pop_back();
    } else if (!tag[3].str().ends_with('/')) {
      open.push_back(tag[2]);
    }
  }
  return open.empty() ? "" : open.back();
}

TEST(ReportCommand, WritesPictures) {
  const TemporaryFolder folder;
  const std::string pictures = folder.path("pictures");
  const Outcome outcome = pipesim_run({"report", pipeline_plan(folder), "--svg", pictures});
  EXPECT_EQ(outcome, (Outcome{0, pictures + ": 4 pictures\n", ""}));
  std::set<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(pictures)) {
    names.insert(entry.path().filename().string());
    const std::string svg = read_file(entry.path());
    EXPECT_THAT(svg, AllOf(StartsWith("<svg xmlns=\"http://www.w3.org/2000/svg\""), HasSubstr("<title>"),
                           Not(HasSubstr("\"nan")), Not(HasSubstr("\"inf"))));
    EXPECT_EQ(unbalanced_element(svg), "") << entry.path();
    EXPECT_LT(svg.size(), 400'000U) << entry.path();
  }
  EXPECT_THAT(names, UnorderedElementsAre("gpt.plan-timeline.svg", "gpt.plan-memory.svg",
                                          "gpt.plan-pipeline.svg", "gpt.plan-topology.svg"));
}

TEST(ReportCommand, RefusesWhatItCannotDraw) {
  const TemporaryFolder folder;
  const std::string page = folder.path("page.html"), notes = folder.file("notes.txt", "hello\n");
  EXPECT_EQ(pipesim_run({"report", "-o", page}),
            (Outcome{2, "", "pipesim: report: FILE is missing; see \"pipesim help report\"\n"}));
  EXPECT_EQ(
      pipesim_run({"report", notes}),
      (Outcome{2, "", "pipesim: report: -o FILE or --svg DIR is missing; see \"pipesim help report\"\n"}));
  EXPECT_THAT(
      pipesim_run({"report", notes, "-o", page}).err,
      StartsWith("pipesim: " + notes + ": this is no file for a report; allowed: a plan (search -o), "));
  EXPECT_EQ(pipesim_run({"report", notes, "--svg", notes}).status, 1);
  const std::string model = folder.path("model.json");
  write_file(model, pipesim_run({"models", "lenet", "--json"}).out);
  EXPECT_THAT(pipesim_run({"report", model, "-o", page}).err,
              StartsWith("pipesim: " + model + ": this is a model, not a plan; "));
  EXPECT_FALSE(std::filesystem::exists(page));
}

}  // namespace
}  // namespace pipesim
