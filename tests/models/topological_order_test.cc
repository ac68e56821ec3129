#include "models/topological_order.h"

#include <gmock/gmock.h>

namespace pipesim {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

TEST(TopologicalOrder, LeavesASortedListAsItIs) {
  EXPECT_THAT(topological_order({{}, {0}, {}, {0, 2}, {1}}).order, ElementsAre(0, 1, 2, 3, 4));
}

TEST(TopologicalOrder, PutsPredecessorsFirst) {
  const TopologicalOrder sorted = topological_order({{2}, {0, 0}, {}, {1}});
  EXPECT_THAT(sorted.order, ElementsAre(2, 0, 1, 3));
  EXPECT_THAT(sorted.cycle, IsEmpty());
}

TEST(TopologicalOrder, FindsTheCycleBehindWhatItBlocks) {
  const TopologicalOrder sorted = topological_order({{4}, {}, {1, 3}, {4}, {2}});
  EXPECT_THAT(sorted.cycle, ElementsAre(2, 4, 3));
  EXPECT_EQ(cycle_text(sorted.cycle, {"a", "b", "c", "d", "e"}), "c -> e -> d -> c");
}

TEST(TopologicalOrder, CallsASelfEdgeACycle) {
  EXPECT_EQ(cycle_text(topological_order({{0}}).cycle, {"a"}), "a -> a");
}

}  // namespace
}  // namespace pipesim
