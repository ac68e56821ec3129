#include "sim/trace.h"

#include <gmock/gmock.h>

#include <nlohmann/json.hpp>
#include <sstream>

#include "sim/base/errors.h"
#include "sim/simulate.h"
#include "tests/sim/random_graph.h"

namespace pipesim {
namespace {

using Json = nlohmann::json;

std::string trace_text(const TaskDag& dag, const TraceLabels& labels) {
  std::ostringstream out;
  write_trace(out, dag, simulate(dag), labels);
  return out.str();
}

std::vector<Json> events(const Json& trace, const std::string& phase) {
  std::vector<Json> found;
  for (const Json& e : trace.at("traceEvents")) {
    if (e.at("ph") == phase) found.push_back(e);
  }
  return found;
}

/// compute 0 on gpu0, a transfer over two lanes with latency, compute 2 on gpu1.
TaskDag transfer() {
  return build({{{0, 0}, 1500, {{LaneId(0), 1500}}, {}},
                {{0, 1}, 2000, {{LaneId(1), 1007}, {LaneId(2), 500}}, {0}},
                {{0, 2}, 3, {{LaneId(3), 3}}, {1}}});
}

TraceLabels labels() {
  TraceLabels l;
  l.process = [](LaneId lane) { return lane.value < 2 ? "gpu0 \"A\"" : "gpu1 é"; };
  l.thread = [](LaneId lane) { return lane.value == 0 || lane.value == 3 ? "compute" : "link\n\\"; };
  l.task = [](TaskId task) { return task.value == 1 ? "send \"x\"" : "矩阵"; };
  l.category = [](TaskId task) { return task.value == 1 ? "transfer" : "forward"; };
  l.args = [](TaskId task) {
    return std::vector<std::pair<std::string, std::string>>{{"bytes \"n\"", std::to_string(task.value)},
                                                            {"b", "\t"}};
  };
  l.is_flow = [](TaskId, TaskId) { return true; };
  return l;
}

TEST(Trace, WholeTextOfASmallOne) {
  TaskDag dag = build({{{0, 0}, 1500, {{LaneId(0), 1500}}, {}}, {{0, 1}, 20, {{LaneId(1), 7}}, {0}}});
  TraceLabels plain;
  plain.is_flow = [](TaskId, TaskId) { return true; };
  plain.process = [](LaneId) { return "gpu0"; };
  EXPECT_EQ(trace_text(dag, plain), R"({"displayTimeUnit":"ns","traceEvents":[
{"ph":"M","name":"process_name","pid":0,"tid":0,"args":{"name":"gpu0"}},
{"ph":"M","name":"process_sort_index","pid":0,"tid":0,"args":{"sort_index":0}},
{"ph":"M","name":"thread_name","pid":0,"tid":0,"args":{"name":"lane 0"}},
{"ph":"M","name":"thread_sort_index","pid":0,"tid":0,"args":{"sort_index":0}},
{"ph":"M","name":"thread_name","pid":0,"tid":1,"args":{"name":"lane 1"}},
{"ph":"M","name":"thread_sort_index","pid":0,"tid":1,"args":{"sort_index":1}},
{"ph":"X","name":"task 0","pid":0,"tid":0,"ts":0.000,"dur":1.500,"args":{}},
{"ph":"X","name":"task 1","pid":0,"tid":1,"ts":1.500,"dur":0.007,"args":{}},
{"ph":"s","id":0,"name":"transfer","cat":"transfer","pid":0,"tid":0,"ts":0.000},
{"ph":"f","id":0,"name":"transfer","cat":"transfer","pid":0,"tid":1,"ts":1.500,"bp":"e"}
]}
)");
}

TEST(Trace, DevicesAreProcessesAndLanesThreads) {
  const Json trace = Json::parse(trace_text(transfer(), labels()));
  std::vector<Json> names;
  for (const Json& e : events(trace, "M")) {
    if (e.at("name") == "process_name") names.push_back(e.at("args").at("name"));
  }
  EXPECT_THAT(names, testing::ElementsAre("gpu0 \"A\"", "gpu1 é"));
  EXPECT_EQ(events(trace, "M").size(), 2U * 2 + 4 * 2) << "a name and a place for each process and thread";
}

TEST(Trace, SlicesCoverTheHolds) {
  const Json trace = Json::parse(trace_text(transfer(), labels()));
  const std::vector<Json> slices = events(trace, "X");
  ASSERT_EQ(slices.size(), 4U);
  EXPECT_EQ(slices[2].at("name"), "send \"x\"");
  EXPECT_EQ(slices[2].at("cat"), "transfer");
  EXPECT_EQ(slices[2].at("pid"), 1);
  EXPECT_EQ(slices[2].at("tid"), 2);
  EXPECT_DOUBLE_EQ(slices[2].at("ts"), 1.5);
  EXPECT_DOUBLE_EQ(slices[2].at("dur"), 0.5);
  EXPECT_DOUBLE_EQ(slices[1].at("dur"), 1.007);
  EXPECT_EQ(slices[0].at("args").at("bytes \"n\""), "0");
  EXPECT_EQ(slices[0].at("args").at("b"), "\t");
  EXPECT_EQ(slices[3].at("name"), "矩阵");
}

TEST(Trace, FlowsAreThoseOfTheLabels) {
  TraceLabels some = labels();
  some.is_flow = [](TaskId before, TaskId) { return before.value == 1; };
  const Json trace = Json::parse(trace_text(transfer(), some));
  ASSERT_EQ(events(trace, "s").size(), 1U);
  ASSERT_EQ(events(trace, "f").size(), 1U);
  EXPECT_EQ(events(trace, "s")[0].at("tid"), 1);
  EXPECT_EQ(events(trace, "f")[0].at("tid"), 3);
  EXPECT_DOUBLE_EQ(events(trace, "f")[0].at("ts"), 3.5);
}

TEST(Trace, TextThatIsNotUtf8IsReplaced) {
  TraceLabels broken = labels();
  broken.task = [](TaskId) { return "a\xffz"; };
  const Json trace = Json::parse(trace_text(transfer(), broken));
  EXPECT_EQ(events(trace, "X")[0].at("name"), "a\uFFFDz");
}

TEST(Trace, CountsOfRandomGraphs) {
  for_each_seed(100, [](Rng& rng) {
    const TaskDag dag = build(random_tasks(rng));
    const Json trace = Json::parse(trace_text(dag, labels()));
    std::size_t holds = 0, flows = 0;
    for (std::size_t i = 0; i < dag.num_tasks(); ++i) {
      holds += dag.lanes(TaskId(i)).size();
      for (const TaskId next : dag.successors(TaskId(i))) {
        flows += !dag.lanes(TaskId(i)).empty() && !dag.lanes(next).empty() ? 1 : 0;
      }
    }
    EXPECT_EQ(events(trace, "X").size(), holds);
    EXPECT_EQ(events(trace, "s").size(), flows);
    EXPECT_EQ(events(trace, "f").size(), flows);
  });
}

TEST(Trace, AFailedStreamIsAnError) {
  std::ostringstream out;
  out.setstate(std::ios::badbit);
  const TaskDag dag = transfer();
  EXPECT_THROW(write_trace(out, dag, simulate(dag), {}), InputError);
}

}  // namespace
}  // namespace pipesim
