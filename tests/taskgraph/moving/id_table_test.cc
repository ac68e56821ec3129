#include "taskgraph/moving/id_table.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <map>
#include <thread>

#include "tests/seeds.h"

namespace pipesim {
namespace {

using Ids = std::vector<std::int32_t>;

Ids random_ids(Rng& rng) {
  Ids ids(rng.below(4));
  for (std::int32_t& id : ids) id = static_cast<std::int32_t>(rng.below(20));
  return ids;
}

TEST(IdTable, HoldsWhatAMapHolds) {
  for_each_seed(20, [](Rng& rng) {
    IdTable<int> table;
    for (int round = 0; round < 2; ++round) {
      std::map<Ids, int> map;
      for (int i = 0; i < 2'000; ++i) {
        const Ids ids = random_ids(rng);
        const int* found = table.find(ids);
        const auto expected = map.find(ids);
        ASSERT_EQ(found != nullptr, expected != map.end());
        if (found) {
          EXPECT_EQ(*found, expected->second);
        } else {
          table.insert(ids, i);
          map.emplace(ids, i);
        }
      }
      table.clear();
    }
  });
}

// Readers look where the writer is, and everywhere, from before the first key on; the writer waits for both
// of them now and then, so that all three are under way together even on one core.
TEST(IdTable, LookupsGoOnWhileOneInserts) {
  constexpr std::int32_t kKeys = 4'000, kTables = 10, kTogether = 500;
  const auto value_of = [](std::int32_t key) { return std::int64_t{key} << 20; };
  std::atomic<std::int64_t> wrong = 0, missed = 0, found = 0;
  for (int t = 0; t < kTables; ++t) {
    IdTable<std::int64_t> table;
    std::atomic<std::int32_t> inserted = 0;
    std::array<std::atomic<std::int64_t>, 2> looks{};
    const auto look = [&](std::size_t reader, std::int32_t key, std::int32_t before) {
      const std::int64_t* value = table.find(Ids{key, -key});
      if (value ? *value != value_of(key) : key < before) ++wrong;
      ++(value ? found : missed);
      ++looks[reader];
    };
    const auto look_anywhere = [&] {
      for (std::int32_t i = 0; inserted < kKeys; i = (i + 1'237) % kKeys) look(0, i, inserted);
    };
    const auto look_ahead = [&] {
      for (std::int32_t i = 0; inserted < kKeys; i = (i + 1) % 40) {
        const std::int32_t before = inserted;
        look(1, std::max(0, before + i - 20), before);
      }
    };
    const auto wait_for_both = [&] {
      const std::array<std::int64_t, 2> before{looks[0], looks[1]};
      while (looks[0] == before[0] || looks[1] == before[1]) std::this_thread::yield();
    };
    const std::jthread a(look_anywhere), b(look_ahead);
    for (std::int32_t key = 0; key < kKeys; ++key) {
      if (key % kTogether == 0) wait_for_both();
      table.insert(Ids{key, -key}, value_of(key));
      inserted = key + 1;
    }
    for (std::int32_t key = 0; key < kKeys; ++key) {
      const std::int64_t* value = table.find(Ids{key, -key});
      ASSERT_NE(value, nullptr);
      EXPECT_EQ(*value, value_of(key));
    }
  }
  EXPECT_EQ(wrong, 0);
  EXPECT_GE(missed, 2 * kTables);  // each reader's first look comes before the first key
  EXPECT_GT(found, 0);
}

}  // namespace
}  // namespace pipesim
