#include "taskgraph/moving/divided_layout.h"

#include <gmock/gmock.h>

#include <map>
#include <set>

#include "tests/seeds.h"

namespace pipesim {
namespace {

Layout copies_of(const Box& box, std::int32_t devices) {
  std::vector<Layout::Piece> pieces;
  for (std::int32_t d = 0; d < devices; ++d) pieces.push_back({DeviceId(d), box, 0});
  return Layout(pieces);
}

// Device d makes addend d / copies.
Layout addends_of(const Box& box, std::int32_t devices, std::int32_t copies) {
  std::vector<Layout::Piece> pieces;
  for (std::int32_t d = 0; d < devices; ++d) pieces.push_back({DeviceId(d), box, d / copies});
  return Layout(pieces);
}

Box box_of(std::vector<Range> ranges) { return Box(ranges); }

TEST(DividedLayout, GivesEachCopyAnEqualPart) {
  const Box box = box_of({{0, 8}, {4, 10}});
  const Layout divided_by_four = divided(copies_of(box, 4), addends_of(box, 4, 1), 0);
  for (std::int32_t d = 0; d < 4; ++d) {
    ASSERT_EQ(divided_by_four.entries_on(DeviceId(d)).size(), 1U);
    EXPECT_EQ(divided_by_four.box(divided_by_four.entries_on(DeviceId(d))[0]),
              box_of({{2 * d, 2 * d + 2}, {4, 10}}));
  }
}

TEST(DividedLayout, CutsTheFirstDimensionThatComesOutEven) {
  const Box box = box_of({{0, 5}, {0, 6}});
  const Layout layout = divided(copies_of(box, 3), addends_of(box, 3, 1), 0);
  EXPECT_EQ(layout.box(layout.entries_on(DeviceId(2))[0]), box_of({{0, 5}, {4, 6}}));
  // 4 parts are impossible, 2 are not: neighbours have different ones.
  const Layout fewer = divided(copies_of(box, 4), addends_of(box, 4, 1), 0);
  EXPECT_EQ(fewer.box(fewer.entries_on(DeviceId(0))[0]), box_of({{0, 5}, {0, 3}}));
  EXPECT_EQ(fewer.box(fewer.entries_on(DeviceId(3))[0]), box_of({{0, 5}, {3, 6}}));
}

TEST(DividedLayout, OfGroupsIsTheSameInEach) {
  const Box box = box_of({{0, 8}});
  const Layout layout = divided(copies_of(box, 8), addends_of(box, 8, 1), 4);
  for (std::int32_t d = 0; d < 8; ++d)
    EXPECT_EQ(layout.box(layout.entries_on(DeviceId(d))[0]), box_of({{d % 4 * 2, d % 4 * 2 + 2}}));
}

TEST(DividedLayout, GivesEachStageAllParts) {
  const Box box = box_of({{0, 8}});
  const Layout layout = divided(copies_of(box, 8), addends_of(box, 8, 1), 0, 2);
  EXPECT_EQ(layout, divided(copies_of(box, 8), addends_of(box, 8, 1), 4));
}

// Devices 4 to 7 are the second stage's. What its devices hold is enough for it; three of them are not.
TEST(HeldThere, IsThePartOfTheTargetsDevicesWhereThatIsEnough) {
  const Box box = box_of({{0, 8}});
  const Layout state = divided(copies_of(box, 8), addends_of(box, 8, 1), 0, 2);
  std::vector<Layout::Piece> second, parts, three;
  for (std::int32_t d = 4; d < 8; ++d) {
    second.push_back({DeviceId(d), box, 0});
    parts.push_back({DeviceId(d), box_of({{d % 4 * 2, d % 4 * 2 + 2}}), 0});
    if (d < 7) three.push_back({DeviceId(d), box, 0});
  }
  EXPECT_EQ(held_there(state, Layout(second)), Layout(parts));
  EXPECT_EQ(held_there(state, Layout(three)), state);
}

TEST(DividedLayout, TakesDevicesOfOneAddendForOne) {
  const Box box = box_of({{0, 8}});
  const Layout layout = divided(copies_of(box, 8), addends_of(box, 8, 2), 0);
  for (std::int32_t d = 0; d < 8; ++d)
    EXPECT_EQ(layout.box(layout.entries_on(DeviceId(d))[0]), box_of({{d / 2 * 2, d / 2 * 2 + 2}}));
}

TEST(DividedLayout, LeavesAScalarWhole) {
  const Layout layout = divided(copies_of(Box(), 4), addends_of(Box(), 4, 1), 0);
  EXPECT_EQ(layout, copies_of(Box(), 4));
}

// Whatever the shape: every device that held a part of the weight holds one, all parts are held, and every
// group of copies holds as much as the home's box.
TEST(DividedLayout, AlwaysHoldsEverything) {
  for_each_seed(200, [](Rng& rng) {
    const auto devices = static_cast<std::int32_t>(1 + rng.below(12));
    const std::int64_t rows = static_cast<std::int64_t>(1 + rng.below(24)),
                       columns = static_cast<std::int64_t>(1 + rng.below(24));
    const Box box = box_of({{0, rows}, {0, columns}});
    std::vector<Layout::Piece> made;
    for (std::int32_t d = 0; d < devices; ++d)
      made.push_back({DeviceId(d), box, static_cast<std::int32_t>(rng.below(4))});
    const auto group = static_cast<std::int32_t>(rng.below(7));
    const Layout layout = divided(copies_of(box, devices), Layout(made), group);
    std::set<std::pair<std::int64_t, std::int64_t>> covered;
    std::map<std::int32_t, std::int64_t> copies;  // by box
    for (const LayoutEntry& e : layout.entries()) {
      const Box& part = layout.box(e);
      EXPECT_TRUE(part.inside(box));
      EXPECT_EQ(part.elements(), layout.boxes()[0].elements());
      ++copies[e.box];
      for (std::int64_t r = part[0].begin; r < part[0].end; ++r) {
        for (std::int64_t c = part[1].begin; c < part[1].end; ++c) covered.insert({r, c});
      }
    }
    EXPECT_EQ(static_cast<std::int64_t>(covered.size()), box.elements());
    EXPECT_EQ(layout.entries().size(), static_cast<std::size_t>(devices));
    for (const auto& [number, count] : copies) EXPECT_EQ(count, copies.begin()->second);
    EXPECT_LE(layout.boxes().size(), static_cast<std::size_t>(group > 0 ? group : devices));
  });
}

}  // namespace
}  // namespace pipesim
