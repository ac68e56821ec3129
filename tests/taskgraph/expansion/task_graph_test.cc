#include "taskgraph/expansion/task_graph.h"

#include <gmock/gmock.h>

#include <set>

#include "tests/taskgraph/expansion.h"

namespace pipesim {
namespace {

using Sizes = std::vector<std::int64_t>;

std::set<std::string> descriptions(const Expansion& e) {
  std::set<std::string> lines;
  for (const TaskLabel& l : e.tasks.labels) lines.insert(describe(l, e.graph, e.topology));
  return lines;
}

TEST(Describe, NamesOperatorsTensorsAndDevices) {
  GraphBuilder b("described", 4);
  const TensorId y = b.add("linear", "fc", {b.data("x", {4, 6})}, {{"out", Sizes{8}}, {"bias", 0}});
  const TensorId p = b.add("softmax", "soft", {y});
  b.add("linear", "out", {p}, {{"out", Sizes{2}}, {"bias", 0}});
  const Expansion e(b.build(), "p100-4x4",
                    {{"fc", {{{"b", 2}}, {0, 1}}}, {"soft", {{{"v", 2}}, {0, 1}}}, {"out", {{}, {5}}}});
  const std::set<std::string> lines = descriptions(e);
  for (const char* expected :
       {"fc forward", "fc backward-weight", "fc update", "soft forward", "soft forward part 3",
        "soft backward-input part 2", "soft statistics, all-reduce over 2 devices",
        "all-to-all of fc over 2 devices", "all-to-all of gradient of fc over 2 devices",
        "soft from node0.gpu0 to node1.gpu1", "gradient of soft from node1.gpu1 to node0.gpu1",
        "all-reduce of gradient of fc.w over 2 devices"})
    EXPECT_EQ(lines.count(expected), 1U) << expected << " is not among\n"
                                         << fmt::format("{}", fmt::join(lines, "\n"));
}

TEST(Describe, CountsMicrobatchesFromOne) {
  GraphBuilder b("described", 4);
  b.add("linear", "fc", {b.data("x", {4, 6})}, {{"out", Sizes{8}}, {"bias", 0}});
  PlanOptions twice;
  twice.microbatches = 2;
  const Expansion e(b.build(), "p100-4x4", {{"fc", {{{"b", 2}}, {0, 1}}}}, twice);
  const std::set<std::string> lines = descriptions(e);
  for (const char* expected :
       {"fc forward of microbatch 1", "fc forward of microbatch 2", "fc backward-weight of microbatch 2",
        "end of step 1, of microbatch 1", "fc update", "all-reduce of gradient of fc.w over 2 devices"})
    EXPECT_EQ(lines.count(expected), 1U) << expected << " is not among\n"
                                         << fmt::format("{}", fmt::join(lines, "\n"));
}

TEST(TaskKind, HasNamesAndTellsCommunication) {
  EXPECT_EQ(name_of(TaskKind::Forward), "forward");
  EXPECT_EQ(name_of(TaskKind::GradientSync), "gradient-sync");
  EXPECT_EQ(name_of(TaskKind::InnerReduce), "inner-reduce");
  EXPECT_EQ(name_of(TaskKind::Barrier), "barrier");
  EXPECT_FALSE(is_communication(TaskKind::Update));
  EXPECT_FALSE(is_communication(TaskKind::Barrier));
  EXPECT_TRUE(is_communication(TaskKind::ForwardTransfer));
  EXPECT_TRUE(is_communication(TaskKind::InnerReduce));
}

}  // namespace
}  // namespace pipesim
