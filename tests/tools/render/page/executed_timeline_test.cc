#include "tools/render/page/executed_timeline.h"

#include <gmock/gmock.h>

#include "tests/refusal.h"
#include "tests/tools/render/page/drawn_inputs.h"
#include "tools/render/page/svg/chart_pictures.h"

namespace pipesim {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::SizeIs;

MeasuredPage executed_page(const std::string& trace) {
  return measured_page_of_trace(JsonDocument::parse(trace, "t.json"));
}

std::string replaced_in_trace(std::string text, const std::string& from, const std::string& to) {
  for (std::size_t at = 0; (at = text.find(from, at)) != std::string::npos; at += to.size())
    text.replace(at, from.size(), to);
  return text;
}

TEST(ExecutedTimeline, HasPredictedAboveMeasured) {
  const MeasuredPage page = executed_page(trace_of_execution());
  ASSERT_TRUE(page.timeline.has_value());
  std::vector<std::string> rows;
  for (const TimelineRow& row : page.timeline->rows)
    rows.push_back(row.owner + " " + row.lane + (row.source == RowSource::Measured ? " measured" : ""));
  // Two transfers at once need two rows.
  EXPECT_THAT(rows, ElementsAre("cpu0 compute", "cpu0 compute measured", "cpu0 transfers", "cpu0 transfers",
                                "cpu0 transfers measured"));
  EXPECT_EQ(page.timeline->end, 3750);
  EXPECT_THAT(page.iterations, ElementsAre(MeasuredPair{"iteration", 3e-6, 3.75e-6, {}, {}, 0}));
}

TEST(ExecutedTimeline, TiesTasksToThemselves) {
  const TimelineRows rows = *executed_page(trace_of_execution()).timeline;
  ASSERT_THAT(rows.tasks, SizeIs(6));
  EXPECT_EQ(rows.names[static_cast<std::size_t>(rows.tasks[0].name)], "conv1 forward");
  EXPECT_EQ(rows.tasks[0].microbatch, 1);
  EXPECT_EQ(rows.tasks[0].begin, 0);
  EXPECT_EQ(rows.tasks[0].beside, 1);
  EXPECT_EQ(rows.tasks[1].begin, 500);
  EXPECT_EQ(rows.tasks[1].beside, 0);
  EXPECT_EQ(rows.tasks[4].kind, TaskKind::Update);
  EXPECT_EQ(rows.tasks[4].beside, -1);  // was not measured
}

TEST(ExecutedTimeline, SaysWhatDiffersMost) {
  const MeasuredPage page = executed_page(trace_of_execution());
  ASSERT_THAT(page.operators, SizeIs(2));
  EXPECT_EQ(page.operators[0], (MeasuredPair{"conv1 forward", 1e-6, 3e-6, {}, {}, 1}));
  ASSERT_THAT(page.links, SizeIs(2));
  EXPECT_EQ(page.links[0].name, "y from cpu0 to cpu1");
  EXPECT_EQ(pictures_of(page).front().name, "timeline");
  EXPECT_THAT(pictures_of(page).front().svg, HasSubstr(">cpu0, measured<"));
}

TEST(ExecutedTimeline, RefusesOtherTraces) {
  const std::string trace = trace_of_execution();
  const auto said = [&](const std::string& from, const std::string& to) {
    return refusal([&] { executed_page(replaced_in_trace(trace, from, to)); });
  };
  EXPECT_EQ(said("cpu0 measured", "cpu0"),
            "t.json: /traceEvents: found no measured timeline, allowed: what \"pipesim execute … --trace "
            "FILE\" writes");
  EXPECT_EQ(
      said("\"tid\":2,\"ts\":0.500", "\"tid\":7,\"ts\":0.500"),
      "t.json: /traceEvents/5: found a task on thread 7, which is of no device, allowed: what \"pipesim "
      "execute … --trace FILE\" writes");
  EXPECT_THAT(said("\"cat\":\"update\"", "\"cat\":\"kernel\""),
              HasSubstr("t.json: /traceEvents/8/cat: found \"kernel\", allowed: forward, "));
  EXPECT_THAT(said("\"dur\":3.000", "\"dur\":-3"), HasSubstr("t.json: /traceEvents/5/dur: "));
}

}  // namespace
}  // namespace pipesim
