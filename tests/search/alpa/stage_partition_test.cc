#include "search/alpa/stage_partition.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <functional>
#include <limits>

#include "sim/base/errors.h"
#include "tests/seeds.h"

namespace pipesim {
namespace {

// Every way to put options one behind the other.
double best_by_trying(const StageProblem& problem) {
  double best = std::numeric_limits<double>::infinity();
  std::vector<const StageOption*> stages;
  const std::function<void(std::int32_t, std::int64_t)> extend = [&](std::int32_t layer,
                                                                     std::int64_t devices) {
    if (layer == problem.layers && devices == problem.devices) {
      double sum = 0, longest = 0;
      for (std::size_t s = 0; s < stages.size(); ++s) {
        if (static_cast<std::int64_t>(stages.size() - s - 1) > stages[s]->most_successors) return;
        sum += stages[s]->time.value;
        longest = std::max(longest, stages[s]->time.value);
      }
      best = std::min(best, sum + static_cast<double>(problem.microbatches - 1) * longest);
    }
    for (const StageOption& o : problem.options) {
      if (o.first != layer || devices + o.devices > problem.devices) continue;
      stages.push_back(&o);
      extend(o.last + 1, devices + o.devices);
      stages.pop_back();
    }
  };
  extend(0, 0);
  return best;
}

StageProblem random_problem(Rng& rng) {
  StageProblem problem{
      static_cast<std::int32_t>(rng.between(1, 6)), rng.between(1, 6), rng.between(1, 20), {}};
  for (std::int32_t first = 0; first < problem.layers; ++first) {
    for (std::int32_t last = first; last < problem.layers; ++last) {
      for (std::int32_t submesh = 0; submesh < 3; ++submesh) {
        for (std::int32_t config = 0; config < 2; ++config) {
          if (rng.below(3) == 0) continue;
          problem.options.push_back({first, last, submesh, config, std::int64_t{1} << submesh,
                                     Seconds(static_cast<double>(rng.between(1, 99)) * (last - first + 1)),
                                     rng.between(0, 4)});
        }
      }
    }
  }
  return problem;
}

TEST(StagePartition, IsTheBestOfAll) {
  int impossible = 0, several = 0;
  for_each_seed(400, [&](Rng& rng) {
    const StageProblem problem = random_problem(rng);
    const double expected = best_by_trying(problem);
    const auto found = partition_stages(problem);
    ASSERT_EQ(found.has_value(), expected < std::numeric_limits<double>::infinity());
    impossible += found ? 0 : 1;
    if (!found) return;
    EXPECT_NEAR(found->total.value, expected, 1e-9);
    std::int32_t layer = 0;
    std::int64_t devices = 0;
    for (std::size_t s = 0; s < found->stages.size(); ++s) {
      const StageOption& o = problem.options[found->stages[s]];
      EXPECT_EQ(o.first, layer);
      EXPECT_GE(o.most_successors, static_cast<std::int64_t>(found->stages.size() - s - 1));
      layer = o.last + 1;
      devices += o.devices;
    }
    EXPECT_EQ(layer, problem.layers);
    EXPECT_EQ(devices, problem.devices);
    several += found->stages.size() > 1 ? 1 : 0;
  });
  if (std::getenv("PIPESIM_TEST_SEED") == nullptr) {
    EXPECT_GE(impossible, 4);
    EXPECT_GE(several, 20);
  }
}

TEST(StagePartition, OfNothingIsNone) {
  EXPECT_FALSE(partition_stages({1, 1, 1, {}}).has_value());
  EXPECT_THROW(partition_stages({0, 1, 1, {}}), InternalError);
  EXPECT_THROW(partition_stages({1, 1, 1, {{0, 1, 0, 0, 1, Seconds(1), 9}}}), InternalError);
  EXPECT_THROW(partition_stages({2, 1, 1, {{1, 0, 0, 0, 1, Seconds(1), 9}}}), InternalError);
  EXPECT_THROW(partition_stages({1, 1, 1, {{0, 0, 0, 0, 0, Seconds(1), 9}}}), InternalError);
  EXPECT_THROW(partition_stages({1, 1, 1, {{0, 0, 0, 0, 1, Seconds(-1), 9}}}), InternalError);
  EXPECT_FALSE(partition_stages({1, 2, 1, {{0, 0, 0, 0, 1, Seconds(1), 9}}}).has_value());  // one device idle
}

}  // namespace
}  // namespace pipesim
