#include "taskgraph/moving/box_cuts.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <span>
#include <vector>

#include "tests/seeds.h"

namespace pipesim {
namespace {

Box random_box(Rng& rng, std::size_t dims) {
  std::vector<Range> ranges;
  for (std::size_t i = 0; i < dims; ++i) {
    const auto begin = static_cast<std::int64_t>(rng.below(40));
    ranges.push_back({begin, begin + 1 + static_cast<std::int64_t>(rng.below(12))});
  }
  return Box(std::span<const Range>(ranges));
}

std::vector<Box> ascending_boxes(Rng& rng, std::size_t dims, std::size_t most) {
  std::vector<Box> boxes;
  for (std::size_t i = rng.below(most); i-- > 0;) boxes.push_back(random_box(rng, dims));
  std::ranges::sort(boxes);
  return boxes;
}

TEST(AscendingBoxes, ThatMeetStandInTheStretch) {
  int left_out = 0;
  for_each_seed(300, [&](Rng& rng) {
    const std::size_t dims = rng.below(3);
    const std::vector<Box> boxes = ascending_boxes(rng, dims, 60);
    const AscendingBoxes index(boxes.size(), [&](std::size_t i) -> const Box& { return boxes[i]; });
    for (int i = 0; i < 20; ++i) {
      const Box box = random_box(rng, dims);
      const AscendingBoxes::Stretch near = index.near(box);
      ASSERT_LE(near.begin, near.end);
      ASSERT_LE(near.end, boxes.size());
      for (std::size_t b = 0; b < boxes.size(); ++b) {
        const bool inside = near.begin <= b && b < near.end;
        EXPECT_TRUE(inside || !boxes[b].meets(box)) << boxes[b].str() << " meets " << box.str();
        left_out += inside ? 0 : 1;
      }
    }
  });
  EXPECT_GT(left_out, 0);
}

TEST(BoxCuts, DisjointIsThatNoTwoMeet) {
  int disjoint_lists = 0;
  for_each_seed(300, [&](Rng& rng) {
    const std::vector<Box> boxes = ascending_boxes(rng, 1 + rng.below(2), 6);
    bool expected = true;
    for (std::size_t i = 0; i < boxes.size(); ++i) {
      for (std::size_t j = 0; j < i; ++j) expected = expected && !boxes[i].meets(boxes[j]);
    }
    EXPECT_EQ(disjoint(boxes), expected);
    disjoint_lists += expected ? 1 : 0;
  });
  EXPECT_GT(disjoint_lists, 0);
}

}  // namespace
}  // namespace pipesim
