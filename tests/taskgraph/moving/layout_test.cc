#include "taskgraph/moving/layout.h"

#include <gmock/gmock.h>

#include "tests/sim/random_graph.h"
#include "tests/taskgraph/random_layouts.h"

namespace pipesim {
namespace {

using testing::ElementsAre;

Box rows(std::int64_t begin, std::int64_t end) { return Box(std::vector<Range>{{begin, end}, {0, 4}}); }
TEST(Layout, SortsEntriesAndNumbersAddendsFromZero) {
  const Layout layout(
      {{DeviceId(2), rows(4, 8), 7}, {DeviceId(1), rows(0, 4), 3}, {DeviceId(1), rows(0, 4), 3}});
  EXPECT_THAT(layout.boxes(), ElementsAre(rows(0, 4), rows(4, 8)));
  EXPECT_THAT(layout.entries(), ElementsAre(LayoutEntry{DeviceId(1), 0, 0}, LayoutEntry{DeviceId(2), 1, 1}));
  EXPECT_EQ(layout.num_addends(), 2);
  EXPECT_EQ(layout.elements_on(DeviceId(2)), 16);
  EXPECT_EQ(layout.elements_on(DeviceId(0)), 0);
  EXPECT_TRUE(layout.entries_on(DeviceId(3)).empty());
  EXPECT_TRUE(Layout().empty());
}

TEST(Layout, EqualContentGivesEqualIds) {
  LayoutTable table;
  for_each_seed(300, [&](Rng& rng) {
    std::vector<Layout::Piece> pieces = random_grid(rng, random_shape(rng), 16, true).pieces();
    const Layout layout(pieces);
    std::reverse(pieces.begin(), pieces.end());
    for (Layout::Piece& p : pieces) p.addend = 2 * p.addend + 5;
    const Layout other(std::move(pieces));
    EXPECT_EQ(layout, other);
    EXPECT_EQ(hash_of(layout), hash_of(other));
    const LayoutId id = table.intern(layout);
    EXPECT_EQ(table.intern(other), id);
    EXPECT_EQ(table[id], layout);
  });
  const LayoutId a = table.intern(Layout({{DeviceId(0), rows(0, 4), 0}})),
                 b = table.intern(Layout({{DeviceId(1), rows(0, 4), 0}}));
  EXPECT_NE(a, b);
}

Layout sum(const std::vector<Layout>& terms) {
  std::vector<const Layout*> parts;
  for (const Layout& t : terms) parts.push_back(&t);
  return sum_of(parts);
}

TEST(SumOf, AddsWhatLiesInTheSamePlaces) {
  const Layout partial({{DeviceId(0), rows(0, 8), 0}, {DeviceId(1), rows(0, 8), 1}});
  EXPECT_EQ(sum({partial, partial, partial}), partial);  // three projections of one tensor
  const Layout shifted({{DeviceId(1), rows(0, 8), 0}, {DeviceId(2), rows(0, 8), 1}});
  EXPECT_EQ(
      sum({partial, shifted}),
      Layout({{DeviceId(0), rows(0, 8), 0}, {DeviceId(1), rows(0, 8), 1}, {DeviceId(2), rows(0, 8), 2}}));
}

TEST(SumOf, KeepsOtherPlacesApart) {
  const Layout halves({{DeviceId(0), rows(0, 4), 0}, {DeviceId(1), rows(4, 8), 0}});
  const Layout copies({{DeviceId(0), rows(0, 8), 0}, {DeviceId(1), rows(0, 8), 0}});
  EXPECT_EQ(sum({halves, copies}).num_addends(), 2);
  EXPECT_EQ(sum({halves, copies}), sum({copies, halves}));
  // The same boxes, but one layout is one addend in two places and the other two addends in one place each.
  const Layout apart({{DeviceId(0), rows(0, 8), 0}, {DeviceId(1), rows(0, 8), 1}});
  EXPECT_EQ(sum({copies, apart}).num_addends(), 3);
}

TEST(SumOf, MergesAddendsOfOneLayout) {
  const Layout twice(
      {{DeviceId(0), rows(0, 8), 0}, {DeviceId(0), rows(0, 8), 1}, {DeviceId(1), rows(0, 8), 2}});
  EXPECT_EQ(sum({twice}), Layout({{DeviceId(0), rows(0, 8), 0}, {DeviceId(1), rows(0, 8), 1}}));
}

TEST(UnionOf, DropsPiecesInsideOthersOfTheSameDevice) {
  const Layout whole({{DeviceId(0), rows(0, 8), 0}}),
      halves({{DeviceId(0), rows(0, 4), 0}, {DeviceId(1), rows(4, 8), 0}});
  const std::vector<const Layout*> all{&halves, &whole, &halves};
  EXPECT_EQ(union_of(all), Layout({{DeviceId(0), rows(0, 8), 0}, {DeviceId(1), rows(4, 8), 0}}));
}

}  // namespace
}  // namespace pipesim
