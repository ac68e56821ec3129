#include "executor/gpu/activity/activity.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <map>
#include <set>
#include <vector>

#include "executor/gpu/activity/activity_collector.h"
#include "tests/seeds.h"

namespace pipesim {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

ActivityRecord kernel(std::uint64_t correlation, Nanoseconds start, Nanoseconds end,
                      std::uint32_t stream = 0) {
  ActivityRecord r;
  r.correlation = correlation;
  r.start = start;
  r.end = end;
  r.stream = stream;
  return r;
}

TEST(GpuActivity, OfATaskIsTheUnionOfItsRecords) {
  const std::vector<ActivityRecord> records = {kernel(3, 50, 60), kernel(1, 10, 20), kernel(2, 15, 30, 7)};
  const std::vector<ExternalCorrelation> correlations = {{2, 40}, {1, 40}, {3, 41}};
  const Attribution found = attribute(records, correlations, 0);
  EXPECT_THAT(found.tasks,
              ElementsAre(TaskActivity{40, 2, 0, 10, 30, 20}, TaskActivity{41, 1, 0, 50, 60, 10}));
  EXPECT_EQ(found.records, 3U);
  EXPECT_EQ(found.gaps(), "");
}

TEST(GpuActivity, OneCallMayStartSeveralKernels) {
  const std::vector<ActivityRecord> records = {kernel(9, 10, 20), kernel(9, 30, 35), kernel(9, 12, 18, 2)};
  const std::vector<ExternalCorrelation> correlations = {{9, 5}};
  EXPECT_THAT(attribute(records, correlations, 0).tasks, ElementsAre(TaskActivity{5, 3, 0, 10, 35, 15}));
}

TEST(GpuActivity, WhatCannotBeToldIsCounted) {
  const std::vector<ActivityRecord> records = {
      kernel(1, 10, 20), kernel(1, 10, 20),                          // came twice
      kernel(2, 0, 0),   kernel(2, 30, 0),                           // no times, no end yet
      kernel(3, 40, 45), kernel(0, 41, 48), kernel(4, 1000, 2'500),  // two tasks, no call, no task
  };
  const std::vector<ExternalCorrelation> correlations = {{1, 7}, {2, 7}, {3, 7}, {3, 8}, {0, 9}, {1, 7}};
  const Attribution found = attribute(records, correlations, 11);
  EXPECT_THAT(found.tasks, ElementsAre(TaskActivity{7, 1, 2, 10, 20, 10}));
  EXPECT_EQ(found.records, 6U);
  EXPECT_EQ(found.duplicates, 1U);
  EXPECT_EQ(found.ambiguous, 1U);
  EXPECT_EQ(found.unattributed, 3U);
  EXPECT_EQ(found.unattributed_time, 5 + 7 + 1500);
  EXPECT_EQ(found.gaps(), "3 of 6 records belong to no task (1.51 us), 2 have no times, 11 were dropped");
}

TEST(GpuActivity, OfNothingIsNothing) {
  const Attribution found = attribute({}, {}, 0);
  EXPECT_THAT(found.tasks, IsEmpty());
  EXPECT_EQ(found, Attribution{});
}

// The definition, one nanosecond after the other.
Attribution attribute_slowly(const std::vector<ActivityRecord>& records,
                             const std::vector<ExternalCorrelation>& correlations, std::uint64_t dropped) {
  Attribution result;
  result.dropped = dropped;
  std::map<std::uint64_t, std::set<std::uint64_t>> tasks_of_call;
  for (const ExternalCorrelation& c : correlations) {
    if (c.correlation != 0) tasks_of_call[c.correlation].insert(c.external);
  }
  for (const auto& [call, tasks] : tasks_of_call) result.ambiguous += tasks.size() > 1 ? 1 : 0;
  std::map<std::uint64_t, std::vector<ActivityRecord>> of_task;
  std::set<ActivityRecord> seen;
  for (const ActivityRecord& r : records) {
    if (!seen.insert(r).second) {
      ++result.duplicates;
      continue;
    }
    ++result.records;
    const bool timed = r.start > 0 && r.end >= r.start;
    if (!timed) ++result.untimed;
    const std::set<std::uint64_t>& tasks = tasks_of_call[r.correlation];
    if (tasks.size() == 1) {
      of_task[*tasks.begin()].push_back(r);
    } else {
      ++result.unattributed;
      if (timed) result.unattributed_time += r.end - r.start;
    }
  }
  for (const auto& [external, mine] : of_task) {
    TaskActivity task;
    task.external = external;
    std::set<Nanoseconds> busy;
    for (const ActivityRecord& r : mine) {
      if (r.start == 0 || r.end < r.start) {
        ++task.untimed;
        continue;
      }
      task.begin = task.records == 0 ? r.start : std::min(task.begin, r.start);
      task.end = task.records == 0 ? r.end : std::max(task.end, r.end);
      ++task.records;
      for (Nanoseconds t = r.start; t < r.end; ++t) busy.insert(t);
    }
    task.busy = static_cast<Nanoseconds>(busy.size());
    result.tasks.push_back(task);
  }
  return result;
}

struct GeneratedActivity {
  std::vector<ActivityRecord> records;
  std::vector<ExternalCorrelation> correlations;
};

// Calls of a few tasks, some of none or of two; kernels that overlap, come twice or have no times.
GeneratedActivity random_activity(Rng& rng) {
  GeneratedActivity made;
  const std::uint64_t calls = 1 + rng.below(400), tasks = 1 + rng.below(40);
  const Nanoseconds length = rng.between(20, 4000);
  for (std::uint64_t call = 0; call <= calls; ++call) {
    for (std::uint64_t owners = rng.below(20) == 0 ? rng.below(3) : 1; owners > 0; --owners)
      made.correlations.push_back({call, (rng.below(tasks) << 32) + 1});
    for (std::uint64_t kernels = rng.below(4); kernels > 0; --kernels) {
      ActivityRecord r = kernel(call, rng.between(1, length), 0, static_cast<std::uint32_t>(rng.below(3)));
      r.end = r.start + rng.between(0, 40);
      r.device = static_cast<int>(rng.below(2));
      r.kind = static_cast<ActivityKind>(rng.below(3));
      if (rng.below(30) == 0) r.end = 0;
      if (rng.below(30) == 0) r.start = r.end = 0;
      for (std::uint64_t times = rng.below(10) == 0 ? 2 : 1; times > 0; --times) made.records.push_back(r);
    }
  }
  for (std::size_t i = made.records.size(); i > 1; --i)
    std::swap(made.records[i - 1], made.records[rng.below(i)]);
  for (std::size_t i = made.correlations.size(); i > 1; --i)
    std::swap(made.correlations[i - 1], made.correlations[rng.below(i)]);
  return made;
}

TEST(GpuActivity, IsAttributedAsDefined) {
  std::size_t records = 0, duplicates = 0, untimed = 0, unattributed = 0, ambiguous = 0;
  for_each_seed(24, [&](Rng rng) {
    const GeneratedActivity made = random_activity(rng);
    const Attribution found = attribute(made.records, made.correlations, 3);
    EXPECT_EQ(found, attribute_slowly(made.records, made.correlations, 3));
    records += found.records;
    duplicates += found.duplicates;
    untimed += found.untimed;
    unattributed += found.unattributed;
    ambiguous += found.ambiguous;
  });
  EXPECT_GT(records, 500U);
  for (const std::size_t cases : {duplicates, untimed, unattributed, ambiguous}) EXPECT_GT(cases, 0U);
}

TEST(GpuActivity, OfThousandsOfTasksAddsUp) {
  // Task k runs for k ns, in halves that touch; nanoseconds since 1970, as CUPTI counts them.
  constexpr Nanoseconds epoch = 1'795'354'602'882'942'934;
  constexpr std::uint64_t tasks = 5000;
  std::vector<ActivityRecord> records;
  std::vector<ExternalCorrelation> correlations;
  for (std::uint64_t k = tasks; k > 0; --k) {
    const Nanoseconds from = epoch + 10'000 * static_cast<Nanoseconds>(k),
                      long_k = static_cast<Nanoseconds>(k);
    records.push_back(kernel(2 * k, from, from + long_k / 2));
    records.push_back(kernel(2 * k + 1, from + long_k / 2, from + long_k));
    correlations.push_back({2 * k + 1, k});
    correlations.push_back({2 * k, k});
  }
  const Attribution found = attribute(records, correlations, 0);
  ASSERT_EQ(found.tasks.size(), tasks);
  for (std::uint64_t k = 1; k <= tasks; ++k) {
    const TaskActivity& task = found.tasks[k - 1];
    ASSERT_EQ(task.external, k);
    ASSERT_EQ(task.busy, static_cast<Nanoseconds>(k));
    ASSERT_EQ(task.end - task.begin, task.busy);
  }
  EXPECT_EQ(found.gaps(), "");
}

class NotedTasks : public ActivityCollector {
 public:
  [[nodiscard]] std::uint32_t api_version() const override { return 0; }
  [[nodiscard]] std::string unavailable() const override { return ""; }
  bool start() override { return true; }
  void stop() override {}
  CollectedActivity collect() override { return {}; }
  void begin_task(std::uint64_t external) override { notes.push_back(static_cast<int>(external)); }
  void end_task() override { notes.push_back(-1); }
  std::vector<int> notes;
};

TEST(GpuActivity, ScopesOfTasksNest) {
  NotedTasks collector;
  {
    const TaskActivityScope outer(&collector, 4);
    const TaskActivityScope inner(&collector, 5);
    const TaskActivityScope none(nullptr, 6);
  }
  EXPECT_THAT(collector.notes, ElementsAre(4, 5, -1, -1));
}

}  // namespace
}  // namespace pipesim
