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
    visit_answers(instance, instance.nodes.size(), [&](const IntraAnswer& answer) {
      const CheckedAnswer checked = check_answer(instance, answer);
      if (!checked.feasible() || checked.cost > most) return;
      for (std::size_t i = 0; i < answer.size(); ++i) EXPECT_TRUE(within.strategies[i][answer[i]]) << i;
      for (std::size_t e = 0; e < instance.edges.size(); ++e)
        EXPECT_TRUE(within.pairs[e][pair_of(instance, instance.edges[e], answer)]) << e;
    });
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
