#include "search/intra/narrow.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <cstdlib>

#include "search/intra/check_answer.h"
#include "sim/base/errors.h"
#include "tests/search/intra/random_instance.h"
#include "tests/seeds.h"

namespace pipesim {
namespace {

// Nothing of an answer that is cheap enough is left out, and much that is in no such answer is.
TEST(ChoicesWithin, AreThoseOfAllCheapAnswers) {
  std::size_t dropped = 0, looked_at = 0;
  for_each_seed(500, [&](Rng& rng) {
    const IntraInstance instance = random_instance(rng, 6, 4);
    const std::optional<WideCost> least = least_cost(instance);
    const WideCost most = least.value_or(0) + static_cast<WideCost>(rng.below(10));
    NarrowedChoices within;
    try {
      within = choices_within(instance, most);
    } catch (const InputError&) {
      EXPECT_EQ(least, std::nullopt);
      return;
    }
    ASSERT_EQ(within.strategies.size(), instance.nodes.size());
    ASSERT_EQ(within.pairs.size(), instance.edges.size());
    IntraAnswer answer(instance.nodes.size(), 0);
    for (bool more = true; more;) {
      const CheckedAnswer checked = check_answer(instance, answer);
      if (checked.feasible() && checked.cost <= most) {
        for (std::size_t i = 0; i < answer.size(); ++i) EXPECT_TRUE(within.strategies[i][answer[i]]) << i;
        for (std::size_t e = 0; e < instance.edges.size(); ++e) {
          const auto [a, b, cost] = instance.edges[e];
          const std::size_t columns = instance.nodes[b].cost.size();
          EXPECT_TRUE(within.pairs[e][answer[a] * columns + answer[b]]) << e;
        }
      }
      more = false;
      for (std::size_t i = 0; i < answer.size() && !more; ++i) {
        more = ++answer[i] < instance.nodes[i].cost.size();
        if (!more) answer[i] = 0;
      }
    }
    for (const auto* kept : {&within.strategies, &within.pairs}) {
      for (const std::vector<bool>& of_one : *kept) {
        looked_at += of_one.size();
        dropped += static_cast<std::size_t>(std::ranges::count(of_one, false));
      }
    }
  });
  if (std::getenv("PIPESIM_TEST_SEED") == nullptr) {
    EXPECT_GT(3 * dropped, looked_at);
  }
}

}  // namespace
}  // namespace pipesim
