#include "taskgraph/moving/redistribution_between_meshes.h"

#include <fmt/format.h>
#include <gmock/gmock.h>

#include <algorithm>
#include <map>

#include "sim/simulate.h"
#include "taskgraph/moving/communication_plan.h"
#include "taskgraph/moving/traffic_bound.h"
#include "tests/seeds.h"
#include "tests/taskgraph/moving/mesh_cases.h"
#include "tests/taskgraph/random_layouts.h"
#include "topologies/presets/presets.h"

namespace pipesim {
namespace {

// The cheapest steps of each component on its own, in the order of their keys.
std::vector<RedistributionStep> steps_apart(const Layout& from, const Layout& to, std::int64_t element_bytes,
                                            CommunicationPrices& prices) {
  std::vector<RedistributionStep> steps =
      *plan_steps(from, to, peeled_addends(from, to), {element_bytes, 0, false, prices});
  std::ranges::stable_sort(steps, {},
                           [](const RedistributionStep& s) { return std::pair(s.component, s.round); });
  link_rounds(steps);
  return steps;
}

std::vector<RedistributionStep> messages_alone(const Layout& from, const Layout& to,
                                               std::int64_t element_bytes, CommunicationPrices& prices) {
  std::map<std::pair<Box, std::int32_t>, std::vector<DeviceId>> parts;
  RedistributionComponent all;
  for (const LayoutEntry& e : from.entries()) parts[{from.box(e), e.addend}].push_back(e.device);
  for (const auto& [key, devices] : parts) all.parts.push_back({key.first, key.second, devices});
  for (const Box& b : to.boxes()) all.wants.push_back({b, {}});
  for (const LayoutEntry& e : to.entries())
    all.wants[static_cast<std::size_t>(e.box)].devices.push_back(e.device);
  return direct_steps(all, {element_bytes, 0, false, prices});
}

Seconds least_time(const Layout& from, const Layout& to, std::int64_t element_bytes, const CostModel& costs) {
  LayoutTable layouts;
  const LayoutId source = layouts.intern(from), target = layouts.intern(to);
  LeastTraffic least(costs);
  least.add(layouts, std::span(&source, 1), target, element_bytes);
  return least.longest();
}

double in_seconds(Nanoseconds time) { return static_cast<double>(time) * 1e-9; }

TEST(BetweenMeshes, NeverTakesLongerThanTheBestOfEachComponentNorLessThanLinksAllow) {
  const Topology topologies[] = {make_topology("p100-4x4"), make_topology("levels:3@20GB/s,2@5GB/s,2@1GB/s"),
                                 make_topology("levels:4@20GB/s,4@1GB/s"), make_topology("dgx-a100:2")};
  const CostModel models[] = {CostModel(topologies[0]), CostModel(topologies[1]), CostModel(topologies[2]),
                              CostModel(topologies[3])};
  int faster = 0, otherwise = 0;
  for_each_seed(1500, [&](Rng& rng) {
    const CostModel& costs = models[rng.below(4)];
    CommunicationPrices prices(costs);
    const std::vector<std::int64_t> shape = random_shape(rng);
    const auto [a, b] = random_grids_apart(rng, shape, prices.topology().num_devices());
    const Layout from(a.pieces()), to(b.pieces());
    ASSERT_TRUE(between_meshes(from, to));
    const std::int64_t element = std::int64_t{4} << 12 * rng.below(3);
    const Redistribution r = redistribute(from, to, element, prices);
    const std::vector<RedistributionStep> apart = steps_apart(from, to, element, prices);
    const Nanoseconds time = simulated_time(r.steps, element, prices),
                      before = simulated_time(apart, element, prices);
    EXPECT_LE(time, before);
    EXPECT_GE(in_seconds(time) * (1 + 1e-6), least_time(from, to, element, costs).value);
    faster += time < before ? 1 : 0;
    otherwise += r.steps.size() != apart.size() ? 1 : 0;

    CommunicationPrices fresh(costs);
    std::vector<Layout::Piece> turned = a.pieces();
    std::ranges::reverse(turned);
    EXPECT_EQ(r, redistribute(Layout(turned), to, element, fresh));
    const Redistribution bare = redistribute(from, to, element, prices, StepContents::LeaveOut);
    ASSERT_EQ(bare.steps.size(), r.steps.size());
    for (std::size_t s = 0; s < r.steps.size(); ++s) {
      EXPECT_EQ(bare.steps[s].group, r.steps[s].group);
      EXPECT_EQ(bare.steps[s].turn, r.steps[s].turn);
    }
  });
  if (std::getenv("PIPESIM_TEST_SEED") == nullptr) {
    EXPECT_GT(faster, sanitized ? 25 : 100);
    EXPECT_GT(otherwise, sanitized ? 5 : 20);
  }
}

// Simulated alone, a plan takes what was promised.
TEST(BetweenMeshes, APlansTasksTakeTheSimulatedTime) {
  const Topology topology = make_topology("levels:4@20GB/s,4@1GB/s");
  const CostModel costs(topology);
  for_each_seed(200, [&](Rng& rng) {
    CommunicationPrices prices(costs);
    const std::vector<std::int64_t> shape = random_shape(rng);
    const auto [a, b] = random_grids_apart(rng, shape, topology.num_devices());
    LayoutTable layouts;
    const LayoutId from = layouts.intern(Layout(a.pieces())), to = layouts.intern(Layout(b.pieces()));
    const CommunicationPlan plan =
        plan_communication(std::span(&from, 1), to, 1 << 20, Bytes(INT64_MAX / 2), layouts, prices);
    TaskDag dag;
    for (std::size_t t = 0; t < plan.tasks.size(); ++t)
      dag.add_task({0, plan.expansion.tasks[t].key}, plan.tasks[t].duration, plan.tasks[t].lanes);
    for (const PlanExpansion::Wait& w : plan.expansion.waits) dag.add_edge(TaskId(w.before), TaskId(w.after));
    dag.finish();
    const Redistribution r = redistribute(layouts[from], layouts[to], 1 << 20, prices);
    EXPECT_EQ(simulate(dag).makespan, simulated_time(r.steps, 1 << 20, prices));
  });
}

TEST(BetweenMeshes, IsAskedForOnlyWhereNoDeviceIsInBothAndNothingIsSummed) {
  const Box box = Box::whole(std::vector<std::int64_t>{4});
  const auto on = [&](std::initializer_list<std::int32_t> devices, bool addends = false) {
    std::vector<Layout::Piece> pieces;
    for (const std::int32_t d : devices) pieces.push_back({DeviceId(d), box, addends ? d : 0});
    return Layout(pieces);
  };
  EXPECT_TRUE(between_meshes(on({0, 2}), on({1, 3})));
  EXPECT_FALSE(between_meshes(on({0, 2}), on({2, 3})));
  EXPECT_FALSE(between_meshes(on({0, 1}, true), on({2, 3})));
  EXPECT_FALSE(between_meshes(on({}), on({2, 3})));
}

// The benchmark of single tensors in arXiv:2211.05322, on nodes like its own. Prints the table of
// docs/resharding.md.
class NineCases : public testing::Test {
 protected:
  static constexpr std::int64_t kElementBytes = 4;
  struct Times {
    double messages, apart, now, least;
  };
  Times times(const Layout& from, const Layout& to) {
    const auto of = [&](const std::vector<RedistributionStep>& steps) {
      return in_seconds(simulated_time(steps, kElementBytes, prices_));
    };
    return {of(messages_alone(from, to, kElementBytes, prices_)),
            of(steps_apart(from, to, kElementBytes, prices_)),
            of(redistribute(from, to, kElementBytes, prices_).steps),
            least_time(from, to, kElementBytes, costs_).value};
  }
  static void print(const std::string& name, const Times& t) {
    fmt::print("| {} | {:.2f} | {:.2f} | {:.2f} | {:.2f} | {:.2f} | {:.2f} |\n", name, t.messages, t.apart,
               t.now, t.least, t.now / t.messages, t.least / t.messages);
  }

  Topology topology_ = make_topology("p100-4x4:5+inter_node.bandwidth=10Gb/s");
  CostModel costs_{topology_};
  CommunicationPrices prices_{costs_};
};

TEST_F(NineCases, TakeLittleMoreThanLinksAllow) {
  for (const MeshCase& c : mesh_cases()) {
    SCOPED_TRACE(c.name);
    const Times t = times(c.from.layout(c.shape, 4), c.to.layout(c.shape, 4));
    print(c.name, t);
    EXPECT_LE(t.now, t.apart);
    EXPECT_LE(t.now, 1.02 * t.least);  // ratios to messages are as near to those that links allow
  }
}

// 2²⁸ elements from one device to all of so many nodes of so many devices.
TEST_F(NineCases, OneSendsToManyInLittleMoreThanOneTransfer) {
  const std::vector<std::int64_t> shape{1 << 28};
  for (const std::int64_t nodes : {1, 2, 3, 4}) {
    for (const std::int64_t gpus : {1, 2, 4}) {
      const Layout from = MeshSide{0, 1, 1}.layout(shape, 4), to = MeshSide{1, nodes, gpus}.layout(shape, 4);
      const Times t = times(from, to);
      print(fmt::format("{} x {}", nodes, gpus), t);
      EXPECT_LE(t.now, 1.04 * t.least);
    }
  }
}

}  // namespace
}  // namespace pipesim
