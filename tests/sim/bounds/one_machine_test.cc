#include "sim/bounds/one_machine.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <numeric>

#include "tests/sim/random_graph.h"

namespace pipesim {
namespace {

constexpr Nanoseconds kLatest = std::numeric_limits<Nanoseconds>::max();

std::vector<LaneJob> random_jobs(Rng& rng, std::size_t most) {
  std::vector<LaneJob> jobs(rng.below(most + 1));
  const auto longest = static_cast<std::int64_t>(rng.below(2) == 0 ? 3 : 100);
  for (LaneJob& job : jobs) job = {rng.between(0, longest), rng.between(0, longest), rng.between(0, longest)};
  return jobs;
}

// The largest of least release, work and least rest of all sets of jobs.
Nanoseconds largest_of_sets(const std::vector<LaneJob>& jobs, Nanoseconds latest_release, bool rests) {
  Nanoseconds largest = 0;
  for (std::size_t set = 1; set < std::size_t{1} << jobs.size(); ++set) {
    Nanoseconds release = kLatest, work = 0, rest = kLatest;
    for (std::size_t i = 0; i < jobs.size(); ++i) {
      if ((set >> i & 1) == 0) continue;
      release = std::min({release, jobs[i].release, latest_release});
      work += jobs[i].work;
      rest = std::min(rest, jobs[i].rest);
    }
    largest = std::max(largest, release + work + (rests ? rest : 0));
  }
  return largest;
}

// The shortest of the schedules that try every order.
Nanoseconds shortest_schedule(const std::vector<LaneJob>& jobs) {
  std::vector<std::size_t> order(jobs.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  Nanoseconds shortest = kLatest;
  do {
    Nanoseconds now = 0, end = 0;
    for (const std::size_t i : order) {
      now = std::max(now, jobs[i].release) + jobs[i].work;
      end = std::max(end, now + jobs[i].rest);
    }
    shortest = std::min(shortest, end);
  } while (std::next_permutation(order.begin(), order.end()));
  return shortest;
}

TEST(OneMachine, IsTheLargestBoundOfAllSets) {
  std::vector<LaneJob> scratch;
  int exact = 0, all = 0;
  for_each_seed(300, [&](Rng& rng) {
    const std::vector<LaneJob> jobs = random_jobs(rng, 7);
    std::vector<LaneJob> sorted = jobs;
    const Nanoseconds bound = one_machine_bound(sorted, scratch);
    EXPECT_EQ(bound, largest_of_sets(jobs, kLatest, true));
    const Nanoseconds shortest = shortest_schedule(jobs);
    EXPECT_LE(bound, shortest);
    exact += bound == shortest ? 1 : 0;
    ++all;
  });
  EXPECT_TRUE(2 * exact > all || sanitized) << exact;  // it is a close one
}

TEST(OneMachine, WithoutRestsIsWhenTheLaneIsDone) {
  for_each_seed(300, [&](Rng& rng) {
    std::vector<LaneJob> jobs = random_jobs(rng, 8);
    const Nanoseconds least = rng.between(-1, 50), until = rng.between(0, 100);
    const Nanoseconds of_sets = largest_of_sets(jobs, kLatest, false),
                      of_early = largest_of_sets(jobs, until, false);
    EXPECT_EQ(end_of_work(jobs, least), jobs.empty() ? least : std::max(least, of_sets));
    EXPECT_EQ(busy_until(jobs, until), std::max(until, of_early));
    // First come, first served is as good as any order.
    Nanoseconds now = 0;
    for (const LaneJob& job : jobs) now = std::max(now, job.release) + job.work;
    EXPECT_EQ(end_of_work(jobs, 0), now);
  });
}

}  // namespace
}  // namespace pipesim
