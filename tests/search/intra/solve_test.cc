#include "search/intra/solve.h"

#include <gmock/gmock.h>

#include <cstdlib>

#include "search/intra/check_answer.h"
#include "sim/base/deadline.h"
#include "sim/base/errors.h"
#include "tests/search/intra/random_instance.h"
#include "tests/seeds.h"
#include "tests/slow_test.h"

namespace pipesim {
namespace {

using testing::Le;

// Bound ≤ optimum = best, with a proof; or a proof that there is none.
SLOW_TEST(IntraSolve, FindsAndProvesTheOptimum) {
  std::size_t found = 0, none = 0, searched = 0;
  for_each_seed(4000, [&](Rng& rng) {
    const IntraInstance instance = random_instance(rng, 6, 4);
    const std::optional<WideCost> least = least_cost(instance);
    IntraSolution solution;
    try {
      IntraSettings settings;
      settings.rounds = 50;
      solution = solve(instance, settings);
    } catch (const InputError&) {
      solution.proven = true;
    }
    EXPECT_TRUE(solution.proven);
    EXPECT_EQ(solution.found, least.has_value());
    searched += solution.parts > 0 ? 1 : 0;
    if (!least) {
      ++none;
      return;
    }
    ++found;
    EXPECT_TRUE(solution.cost == *least);
    EXPECT_TRUE(solution.bound == *least);
    const CheckedAnswer checked = check_answer(instance, solution.answer);
    EXPECT_EQ(checked.broken, "");
    EXPECT_TRUE(checked.cost == solution.cost);
  });
  if (std::getenv("PIPESIM_TEST_SEED") != nullptr) return;
  EXPECT_GT(found, 400U);
  EXPECT_GT(none, 100U);
  EXPECT_GT(searched, sanitized ? 5U : 20U) << "the reductions solved nearly all";
}

// A grid, which reductions leave as it is, and a limit that binds.
IntraInstance grid(Rng& rng, std::uint32_t width, std::uint32_t height, std::size_t strategies) {
  IntraInstance instance;
  for (std::uint32_t i = 0; i < width * height; ++i) {
    IntraInstance::Node node{i / 2, i / 2 + 5, {}, {}};
    for (std::size_t s = 0; s < strategies; ++s) {
      node.cost.push_back(rng.between(0, 100));
      node.usage.push_back(120 - node.cost.back() + rng.between(0, 20));
    }
    instance.nodes.push_back(std::move(node));
  }
  const auto add = [&](std::uint32_t a, std::uint32_t b) {
    IntraInstance::Edge edge{a, b, {}};
    for (std::size_t c = 0; c < strategies * strategies; ++c) edge.cost.push_back(rng.between(0, 60));
    instance.edges.push_back(std::move(edge));
  };
  for (std::uint32_t y = 0; y < height; ++y) {
    for (std::uint32_t x = 0; x < width; ++x) {
      if (x + 1 < width) add(y * width + x, y * width + x + 1);
      if (y + 1 < height) add(y * width + x, y * width + x + width);
    }
  }
  instance.limit = 750;
  return instance;
}

TEST(IntraSolve, BoundsAGridThatIsTooWideForElimination) {
  Rng rng(7);
  const IntraInstance instance = grid(rng, 8, 8, 5);
  IntraSettings settings;
  settings.rounds = 6;
  const IntraSolution solution = solve(instance, settings);
  ASSERT_TRUE(solution.found);
  EXPECT_EQ(check_answer(instance, solution.answer).broken, "");
  EXPECT_TRUE(solution.bound <= solution.cost);
  EXPECT_THAT(solution.gap(), Le(0.2));
}

TEST(IntraSolve, DoesTheSameWithAnyNumberOfThreads) {
  Rng rng(3);
  const IntraInstance instance = grid(rng, 7, 7, 4);
  IntraSettings settings;
  settings.rounds = sanitized ? 1 : 3;
  settings.seed = 11;
  const IntraSolution one = solve(instance, settings);
  settings.threads = 4;
  const IntraSolution four = solve(instance, settings);
  EXPECT_EQ(one.answer, four.answer);
  EXPECT_TRUE(one.cost == four.cost);
  EXPECT_TRUE(one.bound == four.bound);
  EXPECT_EQ(one.parts, four.parts);
}

// With no time at all there is a bound, and no answer.
TEST(IntraSolve, StopsAtItsDeadline) {
  Rng rng(5);
  const IntraInstance instance = grid(rng, 8, 8, 5);
  bool stop = false;
  const Deadline deadline = Deadline().with_stop([&] { return stop; });
  const KeepTo keep(deadline);
  IntraSettings settings;
  std::uint64_t rounds = 0;
  settings.progress = [&](const IntraProgress& progress) {
    rounds = progress.rounds;
    stop = true;
  };
  const IntraSolution solution = solve(instance, settings);
  EXPECT_LE(rounds, 1U);
  EXPECT_TRUE(!solution.found || check_answer(instance, solution.answer).feasible());
  stop = true;
  const IntraSolution none = solve(instance, settings);
  EXPECT_FALSE(none.found);
  EXPECT_FALSE(none.proven);
  EXPECT_TRUE(none.bound <= solution.bound);
}

// Costs just below what forbids.
TEST(IntraSolve, AddsHugeCostsExactly) {
  IntraInstance instance;
  for (int i = 0; i < 30; ++i) instance.nodes.push_back({0, 1, {kForbidden - 1, kForbidden - 2}, {0, 0}});
  const IntraSolution solution = solve(instance);
  EXPECT_EQ(to_string(solution.cost), "29999999999999999940");
  EXPECT_FALSE(solution.proven);  // doubles are not that exact
  EXPECT_TRUE(solution.bound <= solution.cost);
  EXPECT_THAT(solution.gap(), Le(1e-12));
}

TEST(IntraSolve, TakesAnEmptyInstance) {
  const IntraSolution solution = solve(IntraInstance{});
  EXPECT_TRUE(solution.found && solution.proven);
  EXPECT_TRUE(solution.cost == 0);
}

}  // namespace
}  // namespace pipesim
