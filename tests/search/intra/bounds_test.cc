#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <optional>

#include "search/intra/dual_ascent.h"
#include "search/intra/elimination.h"
#include "search/intra/reductions.h"
#include "search/intra/tree_moves.h"
#include "sim/base/errors.h"
#include "tests/search/intra/random_instance.h"
#include "tests/seeds.h"
#include "tests/slow_test.h"

namespace pipesim {
namespace {

using testing::DoubleNear;
using testing::Ge;
using testing::Le;

constexpr double kRounding = 1e-6;

// The value of a dual solution: each node and each edge alone at its least, each in long double. It follows
// the model, not the core's arrays of prices.
long double value_of_dual(const IntraCore& core, const std::vector<double>& multipliers,
                          const std::vector<double>& messages) {
  long double value = 0;
  for (std::size_t r = 0; r < core.rows(); ++r) {
    EXPECT_THAT(multipliers[r], Ge(0));
    value -= static_cast<long double>(multipliers[r]) * core.capacity[r];
  }
  for (const IntraCore::Node& node : core.nodes) {
    long double least = kNever;
    for (std::size_t x = 0; x < node.size; ++x) {
      long double cost = core.costs[node.first + x];
      for (const IntraCore::Part& part : node.parts) {
        for (std::uint32_t r = part.begin; r < part.end; ++r)
          cost += static_cast<long double>(multipliers[r]) * part.usage[x];
      }
      for (const IntraCore::Side& side : node.sides) cost += messages[side.own + x];
      least = std::min(least, cost);
    }
    value += least;
    for (const IntraCore::Side& side : node.sides) {
      if (!side.first) continue;
      long double least_of_edge = kNever;
      for (std::size_t y = 0; y < core.nodes[side.other].size; ++y) {
        for (std::size_t x = 0; x < node.size; ++x)
          least_of_edge = std::min<long double>(
              least_of_edge, static_cast<long double>(core.tables[side.table + y * node.size + x]) -
                                 messages[side.own + x] - messages[side.others + y]);
      }
      value += least_of_edge;
    }
  }
  return value;
}

// The least cost of the core's choices; with one node's strategy given, if there is one. Infinity: none is
// allowed.
double least_of_core(const IntraCore& core, std::uint32_t node, std::uint32_t strategy, bool given) {
  double least = kNever;
  std::vector<std::uint32_t> choice(core.nodes.size(), 0);
  for (bool more = true; more;) {
    if (!given || choice[node] == strategy) {
      std::vector<double> used(core.rows(), 0);
      for (std::uint32_t i = 0; i < choice.size(); ++i) core.add_usage(i, choice[i], 1, used);
      if (core.overuse(used) <= 0) least = std::min(least, core.cost(choice));
    }
    more = false;
    for (std::size_t i = 0; i < choice.size() && !more; ++i) {
      more = ++choice[i] < core.nodes[i].size;
      if (!more) choice[i] = 0;
    }
  }
  return least;
}

// A core of a random instance; it has nodes.
std::optional<IntraCore> random_core(Rng& rng) {
  const IntraInstance instance = random_instance(rng, 6, 4);
  try {
    IntraModel model(instance);
    reduce(model, {true, false, false, false, false});
    if (model.infeasible) return std::nullopt;
    IntraCore core(model);
    if (core.nodes.empty()) return std::nullopt;
    return core;
  } catch (const InputError&) {
    return std::nullopt;
  }
}

SLOW_TEST(IntraBounds, AreValuesOfDualsAndBelowTheOptimum) {
  std::size_t tight = 0, all = 0;
  for_each_seed(1000, [&](Rng& rng) {
    const std::optional<IntraCore> core = random_core(rng);
    if (!core) return;
    const double least = least_of_core(*core, 0, 0, false);
    DualAscent ascent(*core);
    ascent.run(40, kNever);
    EXPECT_THAT(ascent.bound(), Le(least + kRounding));
    ascent.go_back_to_best();
    MessagePassing& messages = ascent.messages();
    double before = -kNever;
    for (int pass = 0; pass < 6; ++pass) {
      const double bound = pass % 2 == 0 ? messages.forward() : messages.backward();
      EXPECT_THAT(bound, Ge(before - kRounding));
      EXPECT_THAT(static_cast<double>(value_of_dual(*core, messages.multipliers(), messages.messages())),
                  DoubleNear(bound, kRounding));
      before = bound;
    }
    ++all;
    tight += least < kNever && ascent.bound() > least - 0.5 ? 1 : 0;
  });
  if (all > 100) {
    EXPECT_GT(tight, all / 4) << "the bounds are loose";
  }
}

// What shrinks a core: no choice with that strategy is cheaper than the rise says.
SLOW_TEST(IntraBounds, RisesAreBelowTheOptimumWithThatStrategy) {
  for_each_seed(300, [&](Rng& rng) {
    const std::optional<IntraCore> core = random_core(rng);
    if (!core) return;
    DualAscent ascent(*core);
    ascent.run(1 + rng.below(30), kNever);
    ascent.go_back_to_best();
    MessagePassing& messages = ascent.messages();
    messages.forward();
    const double before = messages.backward();
    messages.forward();
    for (std::uint32_t i = 0; i < core->nodes.size(); ++i) {
      for (std::uint32_t s = 0; s < core->nodes[i].size; ++s)
        EXPECT_THAT(before + messages.rise(i, s), Le(least_of_core(*core, i, s, true) + kRounding));
    }
  });
}

// The supergradient: at other multipliers, the bound is below the plane that it spans.
TEST(IntraBounds, UsageOfTheMinimaIsASupergradient) {
  for_each_seed(300, [&](Rng& rng) {
    const std::optional<IntraCore> core = random_core(rng);
    if (!core || core->rows() == 0) return;
    MessagePassing messages(*core);
    std::vector<double> multipliers(core->rows(), 0);
    for (double& m : multipliers) m = rng.uniform() * 3;
    messages.set_multipliers(multipliers);
    messages.backward();
    const std::vector<double> start = messages.messages();
    const double bound = messages.forward();
    std::vector<double> used;
    messages.usage_of_minima(used);
    std::vector<double> others = multipliers;
    double plane = bound;
    for (std::size_t r = 0; r < others.size(); ++r) {
      others[r] = std::max(0.0, others[r] + rng.uniform() - 0.5);
      plane += (others[r] - multipliers[r]) * (used[r] - core->capacity[r]);
    }
    messages.set_messages(start);
    messages.set_multipliers(others);
    EXPECT_THAT(messages.forward(), Le(plane + kRounding + 1e-12 * std::abs(plane)));
  });
}

SLOW_TEST(IntraElimination, FindsTheOptimumWithoutRows) {
  std::size_t solved = 0;
  for_each_seed(500, [&](Rng& rng) {
    IntraInstance instance = random_instance(rng, 7, 3);
    for (IntraInstance::Node& node : instance.nodes) node.end = node.begin;
    IntraModel model(instance);
    reduce(model, {true, false, false, false, true});
    if (model.infeasible) return;
    const IntraCore core(model);
    const auto choice = eliminate(core, 100'000);
    ASSERT_TRUE(choice);
    EXPECT_EQ(core.cost(*choice), least_of_core(core, 0, 0, false));
    solved += core.nodes.empty() ? 0 : 1;
    EXPECT_EQ(eliminate(core, 1).has_value(), core.nodes.empty());
  });
  if (std::getenv("PIPESIM_TEST_SEED") == nullptr) {
    EXPECT_GT(solved, sanitized ? 5U : 20U);
  }
}

// What moves add up bit by bit is what the choice costs and uses, and the best is the best.
TEST(IntraMoves, KnowWhatTheChoiceCostsAndUses) {
  for_each_seed(300, [&](Rng& rng) {
    const std::optional<IntraCore> core = random_core(rng);
    if (!core) return;
    TreeMoves moves(*core, rng.split(1));
    std::vector<std::uint32_t> choice;
    for (const IntraCore::Node& node : core->nodes)
      choice.push_back(static_cast<std::uint32_t>(rng.below(node.size)));
    if (!(core->cost(choice) < kNever)) return;
    moves.set(choice);
    const std::pair first(moves.excess(), moves.cost());
    for (int step = 0; step < 10; ++step) {
      moves.run(200, step % 2 == 0 ? 0 : 2, 5);
      EXPECT_THAT(moves.cost(), DoubleNear(core->cost(moves.choice()), kRounding));
      std::vector<double> used(core->rows(), 0);
      for (std::uint32_t i = 0; i < choice.size(); ++i) core->add_usage(i, moves.choice()[i], 1, used);
      EXPECT_EQ(moves.excess() == 0, core->rows() == 0 || core->overuse(used) <= 0);
      EXPECT_THAT(core->cost(moves.best()), DoubleNear(moves.best_cost(), kRounding));
      EXPECT_THAT(std::pair(moves.best_excess(), moves.best_cost()), Le(first));
    }
    if (moves.best_excess() == 0) {
      EXPECT_THAT(moves.best_cost(), Ge(least_of_core(*core, 0, 0, false) - kRounding));
    }
  });
}

}  // namespace
}  // namespace pipesim
