#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

#include "models/zoo/zoo.h"
#include "tests/seeds.h"
#include "tests/taskgraph/random_pipelines.h"
#include "tools/analysis/plans/breakdown/exposed_communication.h"
#include "tools/analysis/plans/task_names.h"
#include "tools/render/plans/breakdown_text.h"
#include "topologies/presets/presets.h"

namespace pipesim {
namespace {

// Looks at every task between any two moments at which one starts or ends.
std::vector<CommunicationTime> slow_times(const SimulatedPart& part, const BoundStrategy& strategy,
                                          const DeviceGroups& groups, const ModelAxes& axes) {
  const TaskGraph& tasks = part.task_graph();
  const Timeline& timeline = part.timeline();
  const auto causes = causes_of_tasks(part, strategy, groups, axes);
  std::set<Nanoseconds> moments(timeline.start.begin(), timeline.start.end());
  moments.insert(timeline.end.begin(), timeline.end.end());
  std::vector<CommunicationTime> times(part.topology().num_devices());
  for (auto next = std::next(moments.begin()); next != moments.end(); ++next) {
    const Nanoseconds begin = *std::prev(next), end = *next;
    std::vector<std::set<std::size_t>> communicates(times.size());
    std::vector<bool> computes(times.size(), false);
    for (std::size_t t = 0; t < tasks.labels.size(); ++t) {
      if (timeline.start[t] > begin || timeline.end[t] < end) continue;
      const TaskLabel& label = tasks.labels[t];
      if (is_communication(label.kind)) {
        for (const DeviceId d : groups[t])
          communicates[d.index()].insert(static_cast<std::size_t>(causes[t]));
      } else if (label.kind != TaskKind::Barrier) {
        computes[label.device.index()] = true;
      }
    }
    for (std::size_t d = 0; d < times.size(); ++d) {
      for (const std::size_t cause : communicates[d]) {
        (computes[d] ? times[d].hidden : times[d].exposed)[cause] +=
            (end - begin) * CommunicationTime::kParts / static_cast<std::int64_t>(communicates[d].size());
      }
    }
  }
  return times;
}

TEST(ExposedCommunication, IsWhatASlowCountOfAllMomentsSays) {
  const Topology topology = make_topology("p100-4x4:1");
  const CostModel costs(topology);
  std::int64_t exposed = 0, hidden = 0;
  for (const char* name : {small_models[0], small_models[3]}) {
    const OperatorGraph graph = make_zoo_model(name);
    const ModelAxes axes(graph);
    for_each_seed(25, [&](Rng& rng) {
      const RandomPipeline p = random_pipeline(graph, rng, topology);
      Evaluator evaluator(graph, costs, p.options);
      const BoundStrategy strategy = evaluator.contents().bind(p.strategy);
      const Evaluated found = evaluator.evaluate(strategy, {.extent = Extent::All, .part = Labels::Make});
      const SimulatedPart& part = *found.part;
      const DeviceGroups groups = groups_of_tasks(part, strategy, GroupMembers::Real);
      const std::vector<CommunicationTime> times = communication_times(part, strategy, groups, axes);
      EXPECT_EQ(times, slow_times(part, strategy, groups, axes));
      for (const CommunicationTime& t : times) {
        exposed += t.all_exposed();
        hidden += t.all_hidden();
        EXPECT_EQ(t.all_exposed() % CommunicationTime::kParts, 0);  // causes add up to whole nanoseconds
        EXPECT_EQ(t.all_hidden() % CommunicationTime::kParts, 0);
      }
    });
  }
  EXPECT_GT(exposed, 0);
  EXPECT_GT(hidden, 0);
}

CommunicationTime time_of(CommunicationCause cause, std::int64_t exposed, std::int64_t hidden) {
  CommunicationTime time;
  time.exposed[static_cast<std::size_t>(cause)] = exposed * CommunicationTime::kParts;
  time.hidden[static_cast<std::size_t>(cause)] = hidden * CommunicationTime::kParts;
  return time;
}

TEST(ExposedCommunication, IsSummedUpOverDevicesThatCompute) {
  const std::vector<CommunicationTime> times{time_of(CommunicationCause::Data, 4'000'000, 2'000'000),
                                             time_of(CommunicationCause::Pipeline, 8'000'000, 0),
                                             time_of(CommunicationCause::Data, 0, 0)};
  const CommunicationSummary summary = summary_of(times, {1, 1, 0});
  EXPECT_EQ(summary.most_exposed, 1);
  EXPECT_DOUBLE_EQ(summary.all_exposed, 6e-3);
  EXPECT_DOUBLE_EQ(summary.all_hidden, 1e-3);
  EXPECT_EQ(causes_text(summary.exposed, summary.all_exposed, 0.01),
            "6 ms (60.0 %): pipeline 4 ms, data 2 ms");
  EXPECT_EQ(
      json_of(times, {1, 1, 0}, make_topology("p100-4x4:1")).dump(),
      R"({"mean":{"exposed_s":0.006,"hidden_s":0.001,"by_cause":{"data":{"exposed_s":0.002,"hidden_s":0.001},)"
      R"("pipeline":{"exposed_s":0.004,"hidden_s":0.0}}},"most_exposed":{"device":"gpu1",)"
      R"("exposed_s":0.008,"hidden_s":0.0,"by_cause":{"pipeline":{"exposed_s":0.008,"hidden_s":0.0}}}})");
}

TEST(ExposedCommunication, OfPlansThatDoNothingIsNone) {
  const CommunicationSummary summary = summary_of({CommunicationTime{}}, {0});
  EXPECT_EQ(summary.all_exposed, 0);
  EXPECT_EQ(summary.all_hidden, 0);
}

}  // namespace
}  // namespace pipesim
