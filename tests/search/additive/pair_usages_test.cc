#include "search/additive/pair_usages.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <optional>

#include "tests/search/intra/random_instance.h"
#include "tests/seeds.h"

namespace pipesim {
namespace {

struct PairsCase {
  explicit PairsCase(Rng& rng) : instance(random_instance(rng, 4, 3)) {
    std::erase_if(instance.edges, [](const IntraInstance::Edge& e) { return e.a == e.b; });
    // Some edges as transfers have it: by the second end's strategy, where the first end has another.
    for (const IntraInstance::Edge& e : instance.edges) {
      const std::size_t columns = instance.nodes[e.b].cost.size();
      const std::uint64_t kind = rng.below(3);
      usages.emplace_back();
      for (std::size_t p = 0; p < e.cost.size(); ++p) {
        const auto to = static_cast<std::int64_t>(p % columns);
        usages.back().push_back(kind == 0                                 ? 0
                                : kind == 1 && p / columns == p % columns ? 0
                                : kind == 1                               ? to + 1
                                                                          : rng.between(0, 3));
      }
    }
    instance.limit += rng.between(0, 6);
  }

  // The largest sum at a time.
  [[nodiscard]] std::int64_t most_used(const IntraAnswer& answer) const {
    std::int64_t most = 0;
    for (std::int64_t time = 0; time < 16; ++time) {
      const auto alive = [&](std::size_t n) {
        return instance.nodes[n].begin <= time && time < instance.nodes[n].end;
      };
      std::int64_t sum = 0;
      for (std::size_t n = 0; n < answer.size(); ++n)
        sum += alive(n) ? instance.nodes[n].usage[answer[n]] : 0;
      for (std::size_t e = 0; e < usages.size(); ++e) {
        const IntraInstance::Edge& edge = instance.edges[e];
        if (alive(edge.b)) sum += usages[e][pair_of(instance, edge, answer)];
      }
      most = std::max(most, sum);
    }
    return most;
  }
  [[nodiscard]] bool forbids(const IntraAnswer& answer) const {
    bool any = false;
    for (std::size_t n = 0; n < answer.size(); ++n)
      any = any || instance.nodes[n].cost[answer[n]] >= kForbidden;
    for (const IntraInstance::Edge& edge : instance.edges)
      any = any || edge.cost[pair_of(instance, edge, answer)] >= kForbidden;
    return any;
  }

  IntraInstance instance;
  std::vector<std::vector<std::int64_t>> usages;
};

TEST(PairUsages, AnswersCostAndUseTheSame) {
  for_each_seed(400, [](Rng& rng) {
    const PairsCase c(rng);
    const PairUsages pairs(c.instance, c.usages);
    std::optional<WideCost> least;
    visit_answers(c.instance, c.instance.nodes.size(), [&](const IntraAnswer& answer) {
      const IntraAnswer extended = pairs.extended(answer);
      EXPECT_EQ(pairs.shortened(extended), answer);
      const CheckedAnswer checked = check_answer(pairs.instance(), extended);
      if (c.forbids(answer)) {
        EXPECT_FALSE(checked.feasible());
        return;
      }
      const WideCost cost = check_answer(c.instance, answer).cost;
      EXPECT_EQ(checked.cost, cost);
      EXPECT_EQ(checked.most_used, c.most_used(answer));
      if (c.most_used(answer) <= c.instance.limit && (!least || cost < *least)) least = cost;
    });
    EXPECT_EQ(least_cost(pairs), least);
    // Added nodes have no better choice than extended() makes.
    if (pairs.instance().nodes.size() <= 7) {
      EXPECT_EQ(least_cost(pairs.instance()), least);
    }
  });
}

// Whatever cheap answers have stays marked, and pairs are marked that they have.
TEST(PairUsages, NarrowedChoicesAreThoseOfTheEdgesBefore) {
  std::size_t dropped = 0;
  for_each_seed(200, [&](Rng& rng) {
    const PairsCase c(rng);
    const PairUsages pairs(c.instance, c.usages);
    const std::optional<WideCost> least = least_cost(pairs);
    if (!least) return;
    const NarrowedChoices within = pairs.shortened(choices_within(pairs.instance(), *least));
    ASSERT_EQ(within.strategies.size(), c.instance.nodes.size());
    ASSERT_EQ(within.pairs.size(), c.instance.edges.size());
    visit_answers(c.instance, c.instance.nodes.size(), [&](const IntraAnswer& answer) {
      const CheckedAnswer checked = check_answer(pairs.instance(), pairs.extended(answer));
      if (!checked.feasible() || checked.cost > *least) return;
      for (std::size_t n = 0; n < answer.size(); ++n) EXPECT_TRUE(within.strategies[n][answer[n]]);
      for (std::size_t e = 0; e < c.instance.edges.size(); ++e)
        EXPECT_TRUE(within.pairs[e][pair_of(c.instance, c.instance.edges[e], answer)]);
    });
    PairUsages narrowed = pairs;
    narrowed.forbid_others(within);
    EXPECT_EQ(least_cost(narrowed), least);
    visit_answers(c.instance, c.instance.nodes.size(), [&](const IntraAnswer& answer) {
      bool marked = true;
      for (std::size_t n = 0; n < answer.size(); ++n) marked = marked && within.strategies[n][answer[n]];
      for (std::size_t e = 0; e < c.instance.edges.size(); ++e)
        marked = marked && within.pairs[e][pair_of(c.instance, c.instance.edges[e], answer)];
      if (!marked) {
        EXPECT_FALSE(check_answer(narrowed.instance(), narrowed.extended(answer)).feasible());
      }
    });
    for (std::size_t e = 0; e < within.pairs.size(); ++e) {
      ASSERT_EQ(within.pairs[e].size(), c.instance.edges[e].cost.size());
      dropped += static_cast<std::size_t>(std::ranges::count(within.pairs[e], false));
    }
  });
  EXPECT_GT(dropped, sanitized ? 25U : 100U);
}

}  // namespace
}  // namespace pipesim
