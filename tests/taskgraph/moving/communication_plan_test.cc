#include "taskgraph/moving/communication_plan.h"

#include <gmock/gmock.h>

#include <map>
#include <span>
#include <utility>
#include <vector>

#include "sim/base/errors.h"
#include "tests/seeds.h"
#include "tests/sim/random_graph.h"
#include "tests/taskgraph/random_layouts.h"
#include "topologies/presets/presets.h"

namespace pipesim {
namespace {

using testing::ElementsAre;
using testing::ElementsAreArray;
using testing::IsEmpty;

DeviceId dev(std::int32_t d) { return DeviceId(d); }

class CommunicationPlanning : public testing::Test {
 protected:
  CommunicationPlan plan(const std::vector<LayoutId>& terms, LayoutId target, Bytes piece = Bytes(1 << 30)) {
    return plan_communication(terms, target, 4, piece, layouts_, prices_);
  }
  LayoutId layout(std::vector<Layout::Piece> pieces) { return layouts_.intern(Layout(pieces)); }

  const Box whole_ = Box::whole(std::vector<std::int64_t>{1000, 1000});
  Topology topology_ = make_topology("levels:2@100GB/s,2@1GB/s");
  CostModel costs_{topology_};
  CommunicationPrices prices_{costs_};
  LayoutTable layouts_;
};

TEST_F(CommunicationPlanning, CutsStepsIntoPiecesThatAddUp) {
  const LayoutId from = layout({{dev(0), whole_, 0}, {dev(1), whole_, 1}});
  const LayoutId to = layout({{dev(0), whole_, 0}, {dev(1), whole_, 0}});
  const CommunicationPlan cut = plan({from}, to, Bytes(1'500'000));
  std::vector<std::int64_t> sizes;
  std::vector<std::int32_t> pieces;
  for (const CommunicationTask& t : cut.tasks) sizes.push_back(t.size.value), pieces.push_back(t.piece);
  EXPECT_THAT(sizes, ElementsAre(1'333'333, 1'333'333, 1'333'334));
  EXPECT_THAT(pieces, ElementsAre(0, 1, 2));
  EXPECT_EQ(cut.local, (std::vector{dev(0), dev(1)}));
  EXPECT_THAT(cut.received,
              ElementsAre(std::pair(dev(0), Bytes(4'000'000)), std::pair(dev(1), Bytes(4'000'000))));
}

TEST_F(CommunicationPlanning, EveryPieceWaitsForAllPiecesOfEarlierRounds) {
  // Across the slow link: halves, then an all-gather among the receivers.
  const LayoutId from = layout({{dev(0), whole_, 0}});
  const LayoutId to = layout({{dev(2), whole_, 0}, {dev(3), whole_, 0}});
  const CommunicationPlan whole = plan({from}, to);
  const CommunicationPlan cut = plan({from}, to, Bytes(1'000'000));
  ASSERT_FALSE(whole.tasks.empty());
  for (const CommunicationPlan* p : {&whole, &cut}) {
    for (const CommunicationTask& t : p->tasks) {
      std::vector<std::int32_t> earlier;
      for (std::size_t i = 0; i < p->tasks.size(); ++i) {
        if (p->tasks[i].round < t.round) earlier.push_back(static_cast<std::int32_t>(i));
      }
      EXPECT_THAT(t.after, ElementsAreArray(earlier));
    }
  }
}

TEST_F(CommunicationPlanning, ReceivesNothingWhereNothingIsWanted) {
  const LayoutId from = layout({{dev(2), whole_, 0}, {dev(3), whole_, 1}});
  const CommunicationPlan p = plan({from}, layout({{dev(0), whole_, 0}}));
  EXPECT_THAT(p.received, ElementsAre(std::pair(dev(0), Bytes(4'000'000))));
  EXPECT_THAT(p.local, IsEmpty());
}

TEST_F(CommunicationPlanning, SumsTermsUnlessApartIsCheaper) {
  int together = 0, apart = 0;
  for_each_seed(400, [&](Rng& rng) {
    const std::vector<std::int64_t> shape{256, 512};
    std::vector<LayoutId> terms;
    for (std::uint64_t n = 2 + rng.below(2); terms.size() < n;) {
      const LayoutId id = layout(random_grid(rng, shape, 4, true).pieces());
      if (std::find(terms.begin(), terms.end(), id) == terms.end()) terms.push_back(id);
    }
    const LayoutId target = layout(random_grid(rng, shape, 4, false).pieces());
    const CommunicationPlan chosen = plan(terms, target);

    std::vector<const Layout*> parts;
    for (const LayoutId id : terms) parts.push_back(&layouts_[id]);
    const Redistribution summed = redistribute(sum_of(parts), layouts_[target], 4, prices_);
    Seconds each;
    std::size_t tasks = 0;
    for (const LayoutId id : terms) {
      const Layout* term = &layouts_[id];
      const Redistribution r = redistribute(sum_of(std::span(&term, 1)), layouts_[target], 4, prices_);
      each += estimated_time(r, 4, prices_);
      tasks += r.steps.size();
    }
    const bool split = summed.has_sends() && each < estimated_time(summed, 4, prices_);
    EXPECT_EQ(chosen.tasks.size(), split ? tasks : summed.steps.size());
    for (const CommunicationTask& t : chosen.tasks) EXPECT_EQ(t.term >= 0, split);
    ++(split ? apart : together);
  });
  if (std::getenv("PIPESIM_TEST_SEED") == nullptr) {
    EXPECT_GT(together, sanitized ? 5 : 20);
    EXPECT_GT(apart, sanitized ? 5 : 20);
  }
}

TEST_F(CommunicationPlanning, LoadsOfLanesNeedNoTasks) {
  int cut = 0, of_terms = 0, collectives = 0;
  for_each_seed(400, [&](Rng& rng) {
    const std::vector<std::int64_t> shape{256, 510};
    std::vector<LayoutId> terms;
    for (std::uint64_t n = 1 + rng.below(3); terms.size() < n;) {
      const LayoutId id = layout(random_grid(rng, shape, 4, true).pieces());
      if (std::find(terms.begin(), terms.end(), id) == terms.end()) terms.push_back(id);
    }
    const LayoutId target = layout(random_grid(rng, shape, 4, false).pieces());
    const Bytes piece(rng.below(2) == 0 ? 1 << 30 : 1000 + static_cast<std::int64_t>(rng.below(100'000)));
    const CommunicationPlan whole = plan(terms, target, piece);
    const auto listed = [](const std::vector<LaneUse>& loads) {
      std::vector<std::pair<LaneId, Nanoseconds>> list;
      for (const LaneUse& load : loads) list.emplace_back(load.lane, load.hold);
      return list;
    };
    using Collectives = std::map<std::pair<std::vector<DeviceId>, Nanoseconds>, std::int64_t>;
    Collectives visited, of_tasks;
    const auto visit = [&](std::span<const DeviceId> group, Nanoseconds moving, std::int64_t times) {
      visited[{{group.begin(), group.end()}, moving}] += times;
    };
    EXPECT_EQ(listed(lane_loads(terms, target, 4, piece, layouts_, prices_, GatherBy::AllGather, visit)),
              listed(whole.loads));
    for (const CommunicationTask& t : whole.tasks) {
      if (t.kind != Collective::Send) ++of_tasks[{{t.group.begin(), t.group.end()}, longest_hold(t.lanes)}];
    }
    EXPECT_EQ(visited, of_tasks);
    collectives += !visited.empty();
    of_terms += whole.term_by_term;
    cut += std::ranges::any_of(whole.tasks, [](const CommunicationTask& t) { return t.pieces > 1; });
  });
  if (std::getenv("PIPESIM_TEST_SEED") != nullptr) return;
  EXPECT_GT(cut, 10);
  EXPECT_GT(of_terms, 2);
  EXPECT_GT(collectives, 10);
}

// Pieces of a step share their lists of lanes, whichever prices they have.
TEST_F(CommunicationPlanning, PricedAgainAreAsWithTheOtherPrices) {
  const Topology slower = make_topology("levels:2@70GB/s,2@0.5GB/s");
  const CostModel slow_costs(slower);
  CommunicationPrices slow(slow_costs);
  int cut = 0, same = 0;
  for_each_seed(200, [&](Rng& rng) {
    const std::vector<std::int64_t> shape{256, 510};
    const LayoutId from = layout(random_grid(rng, shape, 4, true).pieces());
    const LayoutId target = layout(random_grid(rng, shape, 4, false).pieces());
    const Bytes piece(rng.below(2) == 0 ? 1 << 30 : 1000 + static_cast<std::int64_t>(rng.below(100'000)));
    CommunicationPlan priced = plan({from}, target, piece);
    const CommunicationPlan wanted =
        plan_communication(std::span(&from, 1), target, 4, piece, layouts_, slow);
    if (!same_tasks(priced, wanted)) return;
    ++same;
    ASSERT_TRUE(reprice(priced, GatherBy::AllGather, slow));
    EXPECT_EQ(priced.loads, wanted.loads);
    for (std::size_t t = 0; t < wanted.tasks.size(); ++t) {
      EXPECT_EQ(priced.tasks[t].duration, wanted.tasks[t].duration);
      EXPECT_EQ(priced.expansion.tasks[t].duration, wanted.tasks[t].duration);
      EXPECT_TRUE(std::ranges::equal(priced.tasks[t].lanes, wanted.tasks[t].lanes));
    }
    cut += std::ranges::any_of(wanted.tasks, [](const CommunicationTask& t) { return t.pieces > 1; });
  });
  if (std::getenv("PIPESIM_TEST_SEED") != nullptr) return;
  EXPECT_GT(same, 20);
  EXPECT_GT(cut, 10);
}

TEST_F(CommunicationPlanning, TasksCarryThePricesOfTheCostModel) {
  const std::vector<DeviceId> group{dev(1), dev(2)};
  const PricedTask task = priced_task(Collective::Send, group, Bytes(1'000'000), prices_);
  const CollectiveTime time = costs_.collective_time(Collective::Send, group, Bytes(1'000'000));
  EXPECT_EQ(task.duration, to_nanoseconds(time.duration));
  ASSERT_EQ(task.lanes.size(), time.lanes.size());
  for (std::size_t i = 0; i < task.lanes.size(); ++i) {
    EXPECT_EQ(task.lanes[i].lane, time.lanes[i].lane);
    EXPECT_LE(task.lanes[i].hold, task.duration);
  }
}

TEST_F(CommunicationPlanning, ConcurrentStepsTakeAsLongAsTheirBusiestLane) {
  const auto send = [&](std::int32_t from, std::int32_t to) {
    return prices_.time(Collective::Send, std::vector{dev(from), dev(to)}, Bytes(10'000'000));
  };
  ConcurrentTime time(topology_.num_lanes());
  time.add(send(0, 1));
  EXPECT_EQ(time.finish(), send(0, 1).duration);
  EXPECT_EQ(time.finish(), Seconds(0));
  time.add(send(0, 2));
  time.add(send(1, 3));  // shares the slow link
  const Seconds both = time.finish();
  EXPECT_GT(both.value, 1.9 * send(0, 2).duration.value);
  EXPECT_LE(both.value, 2 * send(0, 2).duration.value);
}

// Few uses of many lanes are added up in another way than many of few.
TEST(AddedUp, IsTheSameWhateverTheNumberOfLanes) {
  for_each_seed(100, [&](Rng& rng) {
    std::vector<LaneUse> uses;
    for (std::size_t i = rng.below(50); i-- > 0;)
      uses.push_back({LaneId(rng.below(20)), static_cast<Nanoseconds>(rng.below(1000))});
    EXPECT_EQ(added_up(uses, 20), added_up(uses, 100'000));
  });
}

}  // namespace
}  // namespace pipesim
