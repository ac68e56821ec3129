#include "taskgraph/layout.h"

#include <gmock/gmock.h>

#include "tests/sim/random_graph.h"
#include "tests/taskgraph/random_layouts.h"

namespace pipesim {
namespace {

using testing::ElementsAre;

Box rows(std::int64_t begin, std::int64_t end) { return Box(std::vector<Range>{{begin, end}, {0, 4}}); }
DeviceId dev(std::int32_t d) { return DeviceId(d); }

TEST(Layout, SortsEntriesAndNumbersAddendsFromZero) {
  const Layout layout({{dev(2), rows(4, 8), 7}, {dev(1), rows(0, 4), 3}, {dev(1), rows(0, 4), 3}});
  EXPECT_THAT(layout.boxes(), ElementsAre(rows(0, 4), rows(4, 8)));
  EXPECT_THAT(layout.entries(), ElementsAre(LayoutEntry{dev(1), 0, 0}, LayoutEntry{dev(2), 1, 1}));
  EXPECT_EQ(layout.num_addends(), 2);
  EXPECT_EQ(layout.elements_on(dev(2)), 16);
  EXPECT_EQ(layout.elements_on(dev(0)), 0);
  EXPECT_TRUE(layout.entries_on(dev(3)).empty());
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
  const LayoutId a = table.intern(Layout({{dev(0), rows(0, 4), 0}})),
                 b = table.intern(Layout({{dev(1), rows(0, 4), 0}}));
  EXPECT_NE(a, b);
}

Layout sum(const std::vector<Layout>& terms) {
  std::vector<const Layout*> parts;
  for (const Layout& t : terms) parts.push_back(&t);
  return sum_of(parts);
}

TEST(SumOf, AddsWhatLiesInTheSamePlaces) {
  const Layout partial({{dev(0), rows(0, 8), 0}, {dev(1), rows(0, 8), 1}});
  EXPECT_EQ(sum({partial, partial, partial}), partial);  // three projections of one tensor
  const Layout shifted({{dev(1), rows(0, 8), 0}, {dev(2), rows(0, 8), 1}});
  EXPECT_EQ(sum({partial, shifted}),
            Layout({{dev(0), rows(0, 8), 0}, {dev(1), rows(0, 8), 1}, {dev(2), rows(0, 8), 2}}));
}

TEST(SumOf, KeepsOtherPlacesApart) {
  const Layout halves({{dev(0), rows(0, 4), 0}, {dev(1), rows(4, 8), 0}});
  const Layout copies({{dev(0), rows(0, 8), 0}, {dev(1), rows(0, 8), 0}});
  EXPECT_EQ(sum({halves, copies}).num_addends(), 2);
  EXPECT_EQ(sum({halves, copies}), sum({copies, halves}));
  // The same boxes, but one layout is one addend in two places and the other two addends in one place each.
  const Layout apart({{dev(0), rows(0, 8), 0}, {dev(1), rows(0, 8), 1}});
  EXPECT_EQ(sum({copies, apart}).num_addends(), 3);
}

TEST(SumOf, MergesAddendsOfOneLayout) {
  const Layout twice({{dev(0), rows(0, 8), 0}, {dev(0), rows(0, 8), 1}, {dev(1), rows(0, 8), 2}});
  EXPECT_EQ(sum({twice}), Layout({{dev(0), rows(0, 8), 0}, {dev(1), rows(0, 8), 1}}));
}

TEST(UnionOf, DropsPiecesInsideOthersOfTheSameDevice) {
  const Layout whole({{dev(0), rows(0, 8), 0}}), halves({{dev(0), rows(0, 4), 0}, {dev(1), rows(4, 8), 0}});
  const std::vector<const Layout*> all{&halves, &whole, &halves};
  EXPECT_EQ(union_of(all), Layout({{dev(0), rows(0, 8), 0}, {dev(1), rows(4, 8), 0}}));
}

}  // namespace
}  // namespace pipesim
