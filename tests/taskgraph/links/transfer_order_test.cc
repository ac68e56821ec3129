#include "taskgraph/links/transfer_order.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <numeric>

#include "sim/simulate.h"
#include "tests/seeds.h"

namespace pipesim {
namespace {

using testing::ElementsAre;

TransferTask on_lanes(std::initializer_list<std::size_t> lanes, Nanoseconds time) {
  TransferTask task;
  task.duration = time;
  for (const std::size_t l : lanes) task.lanes.push_back({LaneId(l), time});
  return task;
}

// From one NIC to another, as in a cluster whose nodes have one.
TransferWay message(std::size_t from, std::size_t to, Nanoseconds time) {
  return {on_lanes({2 * from, 2 * to + 1}, time)};
}

TransferTask random_task(Rng& rng, std::size_t lanes) {
  TransferTask task;
  task.duration = rng.between(1, 9);
  for (std::size_t l = 0; l < lanes; ++l) {
    if (rng.below(2) == 0) task.lanes.push_back({LaneId(l), rng.between(1, task.duration)});
  }
  return task;
}

std::vector<Transfer> random_transfers(Rng& rng, std::size_t most) {
  std::vector<Transfer> transfers(1 + rng.below(most));
  const std::size_t lanes = 2 + rng.below(4);
  for (Transfer& t : transfers) {
    t.resize(1 + rng.below(2));
    for (TransferWay& way : t) {
      for (std::uint64_t n = 1 + rng.below(2); n > 0; --n) way.push_back(random_task(rng, lanes));
      if (rng.below(3) > 0) continue;
      std::vector<std::int32_t> all(way.size());
      std::iota(all.begin(), all.end(), 0);
      way.push_back(random_task(rng, lanes));
      way.back().after = all;
    }
  }
  return transfers;
}

// Tasks that wait have later keys: they are of a later round.
Nanoseconds simulated(const std::vector<Transfer>& transfers, const TransferOrder& order) {
  TaskDag dag;
  std::uint64_t key = 0;
  for (const std::int32_t t : order.order) {
    const auto number = static_cast<std::size_t>(t);
    std::vector<TaskId> ids;
    for (const TransferTask& task : transfers[number][static_cast<std::size_t>(order.way[number])]) {
      ids.push_back(dag.add_task({task.after.empty() ? 0U : 1U, key++}, task.duration, task.lanes));
      for (const std::int32_t before : task.after)
        dag.add_edge(ids[static_cast<std::size_t>(before)], ids.back());
    }
  }
  dag.finish();
  return simulate(dag).makespan;
}

// Every order with every choice of ways.
Nanoseconds least_of_all(const std::vector<Transfer>& transfers) {
  TransferOrder order;
  order.way.assign(transfers.size(), 0);
  order.order.resize(transfers.size());
  Nanoseconds least = INT64_MAX;
  while (true) {
    std::iota(order.order.begin(), order.order.end(), 0);
    do {
      least = std::min(least, simulated(transfers, order));
    } while (std::ranges::next_permutation(order.order).found);
    std::size_t t = 0;
    while (t < transfers.size() && ++order.way[t] == std::ssize(transfers[t])) order.way[t++] = 0;
    if (t == transfers.size()) return least;
  }
}

TEST(TransferOrder, TakesAsLongAsTheSimulatorSays) {
  for_each_seed(500, [](Rng& rng) {
    const std::vector<Transfer> transfers = random_transfers(rng, 10);
    const TransferOrder order = order_greedily(transfers);
    EXPECT_EQ(order.makespan, simulated(transfers, order));
    EXPECT_EQ(order.makespan, makespan_of(transfers, order));
  });
}

TEST(TransferOrder, OfAFewIsTheBestOfAll) {
  int better = 0;
  for_each_seed(300, [&](Rng& rng) {
    const std::vector<Transfer> transfers = random_transfers(rng, 4);
    const Nanoseconds least = least_of_all(transfers);
    const std::optional<TransferOrder> exact = order_exactly(transfers, INT64_MAX);
    ASSERT_TRUE(exact);
    EXPECT_TRUE(exact->least);
    EXPECT_EQ(exact->makespan, least);
    EXPECT_EQ(simulated(transfers, *exact), least);
    EXPECT_LE(least_makespan(transfers), least);
    EXPECT_EQ(order_transfers(transfers).makespan, least);
    const TransferOrder greedy = order_greedily(transfers);
    EXPECT_GE(greedy.makespan, least);
    if (greedy.least) {
      EXPECT_EQ(greedy.makespan, least);
    }
    better += greedy.makespan > least ? 1 : 0;
  });
  if (std::getenv("PIPESIM_TEST_SEED") == nullptr) {
    EXPECT_GT(better, sanitized ? 3 : 15);  // the search is worth its time
  }
}

TEST(TransferOrder, OfManyIsNoLongerThanTheGreedyOneAndAlwaysTheSame) {
  int better = 0;
  for_each_seed(100, [&](Rng& rng) {
    const std::vector<Transfer> transfers = random_transfers(rng, 24);
    const TransferOrder greedy = order_greedily(transfers), found = order_transfers(transfers);
    EXPECT_EQ(found.makespan, simulated(transfers, found));
    EXPECT_LE(found.makespan, greedy.makespan);
    EXPECT_GE(found.makespan, least_makespan(transfers));
    EXPECT_EQ(found, order_transfers(transfers));
    better += found.makespan < greedy.makespan ? 1 : 0;
  });
  if (std::getenv("PIPESIM_TEST_SEED") == nullptr) {
    EXPECT_GT(better, sanitized ? 3 : 15);
  }
}

// Two senders, two receivers, a message from each to each: neither receiver may take two at a time.
TEST(TransferOrder, KeepsSendersAndReceiversBusy) {
  const std::vector<Transfer> transfers{
      {message(0, 2, 10)}, {message(0, 3, 10)}, {message(1, 2, 10)}, {message(1, 3, 10)}};
  const TransferOrder order = order_greedily(transfers);
  EXPECT_THAT(order.order, ElementsAre(0, 3, 1, 2));
  EXPECT_EQ(order.makespan, 20);
  EXPECT_TRUE(order.least);
  EXPECT_EQ(makespan_of(transfers, {{0, 1, 2, 3}, {0, 0, 0, 0}}), 30);
}

// Both nodes have all; each sends half of the pieces.
TEST(TransferOrder, BalancesSenders) {
  std::vector<Transfer> transfers;
  for (std::size_t piece = 0; piece < 4; ++piece) {
    const std::size_t to = 2 + piece / 2;
    transfers.push_back({message(0, to, 10), message(1, to, 10)});
  }
  const TransferOrder order = order_greedily(transfers);
  EXPECT_EQ(order.makespan, 20);
  EXPECT_EQ(std::ranges::count(order.way, 0), 2);
}

// Stops as soon as it is as good as asked for.
TEST(TransferOrder, ThatIsGoodEnoughIsNotImproved) {
  for_each_seed(50, [](Rng& rng) {
    const std::vector<Transfer> transfers = random_transfers(rng, 12);
    const TransferOrder greedy = order_greedily(transfers);
    EXPECT_EQ(order_transfers(transfers, greedy.makespan), greedy);
  });
}

}  // namespace
}  // namespace pipesim
