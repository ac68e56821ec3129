#include "sim/ready_queue.h"

#include <gtest/gtest.h>

#include <set>
#include <tuple>

#include "tests/sim/random_graph.h"

namespace pipesim {
namespace {

std::vector<TaskKey> keys_by_low(std::initializer_list<std::uint64_t> lows) {
  std::vector<TaskKey> keys;
  for (const std::uint64_t low : lows) keys.push_back({0, low});
  return keys;
}

TEST(ReadyQueue, PopsByTimeThenKey) {
  const std::vector<TaskKey> keys = keys_by_low({30, 10, 20, 0});
  ReadyQueue queue;
  queue.reset(keys);
  queue.push(100, TaskId(0));
  queue.push(100, TaskId(1));
  queue.push(100, TaskId(2));
  queue.push(5000, TaskId(3));
  EXPECT_EQ(queue.pop(), (ReadyTask{100, TaskId(1)}));
  EXPECT_EQ(queue.pop(), (ReadyTask{100, TaskId(2)}));
  EXPECT_EQ(queue.pop(), (ReadyTask{100, TaskId(0)}));
  EXPECT_EQ(queue.pop(), (ReadyTask{5000, TaskId(3)}));
  EXPECT_TRUE(queue.empty());
}

TEST(ReadyQueue, ATaskPushedAtTheTimeOfTheLastPopJoinsItsEquals) {
  const std::vector<TaskKey> keys = keys_by_low({10, 30, 20, 0});
  ReadyQueue queue;
  queue.reset(keys);
  queue.push(64, TaskId(0));
  queue.push(64, TaskId(1));
  EXPECT_EQ(queue.pop(), (ReadyTask{64, TaskId(0)}));
  queue.push(64, TaskId(2));
  queue.push(64, TaskId(3));
  EXPECT_EQ(queue.pop(), (ReadyTask{64, TaskId(3)}));
  EXPECT_EQ(queue.pop(), (ReadyTask{64, TaskId(2)}));
  EXPECT_EQ(queue.pop(), (ReadyTask{64, TaskId(1)}));
}

TEST(ReadyQueue, TimesUpToTheLargest) {
  constexpr Nanoseconds kMost = std::numeric_limits<Nanoseconds>::max();
  const std::vector<TaskKey> keys = keys_by_low({0, 1, 2});
  ReadyQueue queue;
  queue.reset(keys);
  queue.push(kMost, TaskId(0));
  queue.push(kMost - 1, TaskId(1));
  queue.push(0, TaskId(2));
  EXPECT_EQ(queue.pop(), (ReadyTask{0, TaskId(2)}));
  EXPECT_EQ(queue.pop(), (ReadyTask{kMost - 1, TaskId(1)}));
  EXPECT_EQ(queue.pop(), (ReadyTask{kMost, TaskId(0)}));
}

TEST(ReadyQueue, ResetEmptiesIt) {
  const std::vector<TaskKey> keys = keys_by_low({0, 1});
  ReadyQueue queue;
  queue.reset(keys);
  queue.push(7, TaskId(0));
  queue.push(0, TaskId(1));
  queue.reset(keys);
  EXPECT_TRUE(queue.empty());
  queue.push(3, TaskId(1));
  EXPECT_EQ(queue.pop(), (ReadyTask{3, TaskId(1)}));
}

TEST(ReadyQueue, AgreesWithASortedSet) {
  for_each_seed(300, [](Rng& rng) {
    constexpr std::size_t kTasks = 300;
    const std::int64_t range = std::int64_t{1} << rng.below(50);
    std::vector<TaskKey> keys;
    for (std::size_t i = 0; i < kTasks; ++i) keys.push_back({rng.below(2), (rng.next() << 10) + i});
    ReadyQueue queue;
    queue.reset(keys);
    std::set<std::tuple<Nanoseconds, TaskKey, TaskId>> expected;
    Nanoseconds now = 0;
    for (std::size_t pushed = 0; pushed < kTasks || !expected.empty();) {
      if (pushed < kTasks && (expected.empty() || rng.below(2) == 0)) {
        const Nanoseconds ready = now + (rng.below(4) == 0 ? 0 : rng.between(0, range));
        queue.push(ready, TaskId(pushed));
        expected.emplace(ready, keys[pushed], TaskId(pushed));
        ++pushed;
      } else {
        const auto [ready, key, task] = *expected.begin();
        expected.erase(expected.begin());
        ASSERT_EQ(queue.pop(), (ReadyTask{ready, task}));
        now = ready;
      }
      ASSERT_EQ(queue.empty(), expected.empty());
    }
  });
}

}  // namespace
}  // namespace pipesim
