#include "search/intra/check_answer.h"

#include <gmock/gmock.h>

#include <limits>

namespace pipesim {
namespace {

// Two nodes that are alive together at time 2 only, and an edge between them.
IntraInstance two_nodes() {
  IntraInstance instance;
  instance.nodes = {{0, 3, {5, 1}, {10, 20}}, {2, 4, {7, kForbidden}, {30, 1}}};
  instance.edges = {{0, 1, {100, 0, kForbidden, 0}}};
  instance.limit = 40;
  return instance;
}

TEST(IntraCheck, AddsCostsAndUsage) {
  const CheckedAnswer checked = check_answer(two_nodes(), {0, 0});
  EXPECT_TRUE(checked.feasible());
  EXPECT_EQ(to_string(checked.cost), "112");
  EXPECT_EQ(checked.most_used, 40);
  EXPECT_EQ(checked.most_used_at, 2);
}

TEST(IntraCheck, SaysWhatIsBroken) {
  IntraInstance instance = two_nodes();
  EXPECT_EQ(check_answer(instance, {1, 0}).broken,
            "edge 0: strategy 1 of node 0 forbids strategy 0 of node 1");
  EXPECT_EQ(check_answer(instance, {0, 1}).broken, "node 1: strategy 1 is forbidden");
  instance.limit = 39;
  EXPECT_EQ(check_answer(instance, {0, 0}).broken, "at time 2 the usage is 40, 1 over the limit 39");
}

// Intervals are half-open, and an empty one holds nothing.
TEST(IntraCheck, EndsBeforeTheEndOfAnInterval) {
  IntraInstance instance;
  instance.nodes = {{0, 2, {0}, {3}}, {2, 4, {0}, {3}}, {3, 3, {0}, {3}}};
  instance.limit = 3;
  EXPECT_TRUE(check_answer(instance, {0, 0, 0}).feasible());
}

TEST(IntraCheck, CountsAnEdgeFromANodeToItself) {
  IntraInstance instance;
  instance.nodes = {{0, 1, {0, 0}, {0, 0}}};
  instance.edges = {{0, 0, {1, 2, 3, 4}}};
  EXPECT_EQ(to_string(check_answer(instance, {1}).cost), "4");
}

TEST(IntraCheck, TotalsHave128Bits) {
  IntraInstance instance;
  for (int i = 0; i < 20; ++i) instance.nodes.push_back({0, 1, {kForbidden - 1}, {0}});
  EXPECT_EQ(to_string(check_answer(instance, IntraAnswer(20, 0)).cost), "19999999999999999980");
  EXPECT_EQ(to_string(-WideCost{120}), "-120");
  EXPECT_EQ(to_string(0), "0");
}

}  // namespace
}  // namespace pipesim
