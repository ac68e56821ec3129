#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "sim/base/errors.h"
#include "sim/simulate.h"
#include "tests/sim/random_graph.h"

namespace pipesim {
namespace {

Nanoseconds scaled_time(Nanoseconds time, double factor) {
  return std::llround(static_cast<double>(time) * factor);
}

// A retimed graph runs as one that is built with these times.
TEST(Retiming, IsBuildingAnew) {
  for (std::uint64_t seed = 0; seed < 300; ++seed) {
    Rng rng(seed);
    std::vector<PlainTask> tasks = random_tasks(rng);
    const TaskDag dag = build(tasks, in_order(tasks.size()));
    TaskDag retimed = dag;
    for (int turn = 0; turn < 2; ++turn) {  // from the same times again
      std::vector<double> factors;
      std::vector<PlainTask> wanted = tasks;
      for (PlainTask& task : wanted) {
        factors.push_back(static_cast<double>(rng.below(40)) / 10);
        task.duration = scaled_time(task.duration, factors.back());
        for (LaneUse& use : task.lanes) use.hold = scaled_time(use.hold, factors.back());
      }
      retimed.retime(dag, factors);
      const Timeline got = simulate(retimed), expected = simulate(build(wanted, in_order(tasks.size())));
      EXPECT_EQ(got.start, expected.start) << seed;
      EXPECT_EQ(got.end, expected.end) << seed;
    }
  }
}

TEST(Retiming, RefusesOtherGraphsAndTimes) {
  Rng rng(1);
  const std::vector<PlainTask> tasks = random_tasks(rng);
  const TaskDag dag = build(tasks, in_order(tasks.size()));
  TaskDag retimed = dag;
  EXPECT_THROW(retimed.retime(dag, std::vector<double>(tasks.size() + 1, 1)), InternalError);
  EXPECT_THROW(retimed.retime(dag, std::vector<double>(tasks.size(), -1)), InternalError);
  EXPECT_THROW(
      retimed.retime(dag, std::vector<double>(tasks.size(), std::numeric_limits<double>::quiet_NaN())),
      InternalError);
  TaskDag other = dag;
  other.clear();
  other.finish();
  EXPECT_THROW(other.retime(dag, std::vector<double>(tasks.size(), 1)), InternalError);
}

}  // namespace
}  // namespace pipesim
