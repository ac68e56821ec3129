#include "tools/render/page/plan_page.h"

#include <gmock/gmock.h>

#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "search/baselines/baselines.h"
#include "search/recipes/expand_recipe.h"
#include "search/recipes/recipe.h"
#include "search/recipes/recipe_model.h"
#include "tests/search/search_case.h"
#include "tools/analysis/plans/plan_report.h"

namespace pipesim {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::Ge;
using testing::HasSubstr;
using testing::Le;

// A pipeline of two stages on two devices each.
struct SimulatedPipeline {
  SearchCase c{"gpt:layers=4,hidden=64,heads=4,vocab=96,sequence=32,positions=32,batch=4", "p100-4x4:1"};
  PlanOptions options;
  Evaluator evaluator;
  BoundStrategy strategy;
  PlanReport report;

  explicit SimulatedPipeline(const std::string& recipe = "pp2,dp2,mbs2", std::int32_t microbatches = 4,
                             std::size_t fold_from = 1'000'000)
      : options(options_of(recipe, microbatches)), evaluator(c.graph, c.costs, options, fold_from) {
    strategy = evaluator.contents().bind(made(recipe).strategy);
  }
  void in_full() { report = report_plan_in_full(evaluator, strategy); }
  void in_part() { report = report_plan(evaluator, strategy); }

  [[nodiscard]] RecipeStrategy made(const std::string& recipe) const {
    return expand_recipe(completed(parse_recipe(recipe), 4), RecipeModel(c.graph), c.topology);
  }
  [[nodiscard]] PlanOptions options_of(const std::string& recipe, std::int32_t microbatches) const {
    PlanOptions of;
    of.microbatches = microbatches;
    made(recipe).apply_to(of);
    return of;
  }
  TimelineRows rows() { return timeline_rows(*report.part, strategy, report.critical); }
};

TEST(TimelineRows, DrawEveryTaskOnTheLanesThatItHolds) {
  SimulatedPipeline s;
  s.in_full();
  const TimelineRows rows = s.rows();
  const TaskGraph& graph = s.report.part->task_graph();
  std::size_t tasks = 0, bars = 0;
  Nanoseconds held = 0;
  for (std::size_t t = 0; t < graph.dag.num_tasks(); ++t) {
    if (graph.labels[t].kind == TaskKind::Barrier) continue;
    ++tasks;
    for (const LaneUse use : graph.dag.lanes(TaskId(t))) {
      bars += use.hold > 0 ? 1 : 0;
      held += use.hold;
    }
  }
  EXPECT_EQ(rows.tasks.size(), tasks);
  EXPECT_EQ(rows.bars.size(), bars);
  EXPECT_EQ(rows.end, s.report.part->timeline().makespan);
  Nanoseconds drawn = 0, busy = 0;
  for (const DrawnBar& bar : rows.bars) drawn += bar.hold;
  for (const TimelineRow& row : rows.rows) busy += row.busy;
  EXPECT_EQ(drawn, held);
  EXPECT_EQ(busy, held);
}

TEST(TimelineRows, OverlapNowhere) {
  SimulatedPipeline s;
  s.in_full();
  const TimelineRows rows = s.rows();
  std::vector<Nanoseconds> free(rows.rows.size(), 0);
  std::int32_t task = 0;
  for (const DrawnBar& bar : rows.bars) {
    EXPECT_GE(bar.task, task);
    task = bar.task;
    const DrawnTask& of = rows.tasks[static_cast<std::size_t>(bar.task)];
    EXPECT_GE(of.begin, free[static_cast<std::size_t>(bar.row)]);
    free[static_cast<std::size_t>(bar.row)] = of.begin + bar.hold;
  }
  EXPECT_EQ(rows.rows.front().owner, "gpu0 (stage 0)");
  EXPECT_EQ(rows.rows.front().lane, "compute");
}

TEST(TimelineRows, TellWhatEachTaskWaitedFor) {
  SimulatedPipeline s;
  s.in_full();
  const TimelineRows rows = s.rows();
  std::set<DrawnCause> seen;
  for (const DrawnTask& task : rows.tasks) {
    seen.insert(task.cause);
    if (task.waited_for < 0) continue;
    const DrawnTask& before = rows.tasks[static_cast<std::size_t>(task.waited_for)];
    const Nanoseconds end = before.begin + before.duration;
    // A transfer lets go of its link before it has arrived; ends of steps may take a nanosecond.
    if (task.cause == DrawnCause::Input) {
      EXPECT_EQ(end, task.begin) << rows.names[static_cast<std::size_t>(task.name)];
    } else if (task.cause == DrawnCause::AfterStep) {
      EXPECT_LE(end, task.begin);
    } else {
      EXPECT_LT(before.begin, task.begin);
    }
  }
  EXPECT_GE(seen.size(), 3U);
}

TEST(TimelineRows, CriticalPartsAddUpToTheIteration) {
  SimulatedPipeline s;
  s.in_full();
  Nanoseconds critical = 0, of_path = 0, of_barriers = 0;
  for (const DrawnTask& task : s.rows().tasks) critical += task.critical;
  for (const CriticalStep& step : s.report.critical.steps) {
    const TaskKind kind = s.report.part->labels()[step.task.index()].kind;
    (kind == TaskKind::Barrier ? of_barriers : of_path) += step.until - step.from;
  }
  EXPECT_EQ(critical, of_path);
  EXPECT_EQ(of_path + of_barriers, s.report.makespan);
}

TEST(TimelineRows, AreColumnsInJson) {
  SimulatedPipeline s;
  s.in_full();
  const TimelineRows rows = s.rows();
  const nlohmann::ordered_json json = json_of(rows);
  ASSERT_EQ(json["tasks"]["begin_steps"].size(), rows.tasks.size());
  ASSERT_EQ(json["bars"]["row"].size(), rows.bars.size());
  Nanoseconds begin = 0;
  for (std::size_t i = 0; i < rows.tasks.size(); ++i) {
    begin += json["tasks"]["begin_steps"][i].get<Nanoseconds>();
    EXPECT_EQ(begin, rows.tasks[i].begin);
    const auto back = json["tasks"]["waited_for_back"][i].get<std::int32_t>();
    EXPECT_EQ(back == 0 ? -1 : static_cast<std::int32_t>(i) - back, rows.tasks[i].waited_for);
  }
}

TEST(TimelineRows, OfAFoldedPlanHaveOneDeviceOfEachKind) {
  SimulatedPipeline s("pp2,dp2,mbs2", 64, 0);
  s.in_part();
  const SimulatedPart part = *s.report.part;
  ASSERT_NE(part.folding(), nullptr);
  ASSERT_FALSE(part.steady().windows.empty());
  const TimelineRows rows = s.rows();
  std::map<std::string, std::int64_t> alike;
  for (const TimelineRow& row : rows.rows) {
    if (row.computes) alike[row.owner] = row.alike;
  }
  std::vector<std::int64_t> counts;
  for (const auto& [owner, count] : alike) counts.push_back(count);
  EXPECT_THAT(counts, ElementsAre(2, 2));
  // The tasks of all are as many as a simulation of all has.
  const std::int64_t estimated = num_tasks_of_all(part);
  s.in_full();
  const auto all = static_cast<std::int64_t>(s.report.part->dag().num_tasks());
  EXPECT_THAT(estimated, AllOf(Ge(all * 8 / 10), Le(all * 12 / 10)));
}

TEST(MemoryCurves, ReachThePeaksOfTheReport) {
  SimulatedPipeline s;
  s.in_full();
  // Exact, and of few steps, which keep the fullest moments.
  for (const std::size_t most : {std::size_t{100'000}, std::size_t{50}}) {
    const std::vector<MemoryCurve> curves = memory_curves(*s.report.part, s.report.memory, most);
    ASSERT_EQ(curves.size(), 4U);
    for (std::size_t d = 0; d < curves.size(); ++d) {
      const MemoryCurve& curve = curves[d];
      ASSERT_FALSE(curve.time.empty());
      EXPECT_EQ(curve.time.front(), 0);
      EXPECT_LE(curve.time.size(), most);
      EXPECT_TRUE(std::is_sorted(curve.time.begin(), curve.time.end()));
      Bytes peak;
      for (std::size_t i = 0; i < curve.time.size(); ++i) peak = std::max(peak, curve.total(i));
      EXPECT_EQ(peak, s.report.memory[d].peak);
      EXPECT_EQ(curve.peak, peak);
      EXPECT_EQ(curve.usable, s.c.topology.usable_memory(DeviceId(d)));
    }
  }
}

TEST(TopologyDrawing, HasEachDeviceInsideItsNode) {
  const SearchCase c("lenet", "dgx-h100:6");
  Evaluator evaluator(c.graph, c.costs, {});
  const BoundStrategy strategy =
      evaluator.contents().bind(baseline_strategy("data-parallel", c.graph, c.costs));
  const PlanReport report = report_plan_in_full(evaluator, strategy);
  const TopologyDrawing drawing = draw_topology(*report.part, c.topology, report.compute, 4);
  EXPECT_EQ(drawing.nodes.size(), 4U);
  EXPECT_EQ(drawing.nodes_left_out, 2U);
  std::size_t devices = 0;
  std::set<std::pair<double, double>> places;
  for (const DrawnVertex& v : drawing.vertices) {
    EXPECT_THAT(v.x, AllOf(Ge(0), Le(drawing.width)));
    EXPECT_THAT(v.y, AllOf(Ge(0), Le(drawing.height)));
    EXPECT_TRUE(places.insert({v.x, v.y}).second) << v.whole;
    if (v.kind != VertexKind::Device) continue;
    ++devices;
    const DrawnNode& node = drawing.nodes[(devices - 1) / 8];
    EXPECT_THAT(v.whole, HasSubstr(node.name));
    EXPECT_THAT(v.x, AllOf(Ge(node.x), Le(node.x + node.width)));
    EXPECT_THAT(v.y, AllOf(Ge(node.y), Le(node.y + node.height)));
  }
  EXPECT_EQ(devices, 32U);
}

TEST(TopologyDrawing, LoadsAreSharesOfTheIteration) {
  SimulatedPipeline s;
  s.in_full();
  const std::vector<double> loads = loads_of_lanes(*s.report.part, s.c.topology.num_lanes());
  const auto whole = static_cast<double>(s.report.makespan);
  for (std::size_t d = 0; d < 4; ++d)
    EXPECT_NEAR(loads[d], static_cast<double>(s.report.compute[d]) / whole, 1e-12);
  EXPECT_GT(*std::max_element(loads.begin() + 4, loads.end()), 0);
}

}  // namespace
}  // namespace pipesim
