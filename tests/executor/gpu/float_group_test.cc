#include "executor/gpu/bodies/parts/float_group.h"

#include <gtest/gtest.h>

#include <vector>

namespace pipesim::gpu {
namespace {

constexpr std::int64_t kElements = 40;

// Elements that count up, of any type; the memory is aligned to 16 bytes at least.
struct Counting {
  explicit Counting(Stored stored) : memory(2 * kElements), floats{memory.data(), stored} {
    for (std::int64_t i = 0; i < kElements; ++i) floats.set(i, static_cast<float>(i));
  }
  std::vector<double> memory;
  Floats floats;
};

class FloatGroups : public testing::TestWithParam<Stored> {};

TEST_P(FloatGroups, ReadWhatLiesAnywhere) {
  const Counting tensor(GetParam());
  for (std::int64_t first = 0; first < 10; ++first) {
    for (std::int64_t count = -1; count <= FloatGroup::size; ++count) {
      const FloatGroup group = read_group(tensor.floats, {first, count});
      for (std::int64_t k = 0; k < FloatGroup::size; ++k)
        EXPECT_EQ(group.values[k], k < count ? static_cast<float>(first + k) : 0.0F);
    }
  }
}

TEST_P(FloatGroups, WriteNothingBeside) {
  for (std::int64_t first = 0; first < 10; ++first) {
    for (std::int64_t count = 0; count <= FloatGroup::size; ++count) {
      const Counting tensor(GetParam());
      FloatGroup group{};
      for (std::int64_t k = 0; k < FloatGroup::size; ++k) group.values[k] = static_cast<float>(-1 - k);
      write_group(tensor.floats, {first, count}, group);
      for (std::int64_t i = 0; i < kElements; ++i) {
        const bool written = i >= first && i < first + count;
        EXPECT_EQ(tensor.floats[i], static_cast<float>(written ? first - 1 - i : i)) << i;
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, FloatGroups,
                         testing::Values(Stored::Float32, Stored::BFloat16, Stored::Float16,
                                         Stored::Float64));

TEST(FloatGroup, HoldEveryElementOnce) {
  EXPECT_EQ(groups_of(0), 0);
  EXPECT_EQ(groups_of(8), 1);
  EXPECT_EQ(groups_of(9), 2);
  const GroupPlace last = group_at(1, 11);
  EXPECT_EQ(last.first, 8);
  EXPECT_EQ(last.count, 3);
  EXPECT_EQ(last.in_row(20).first, 28);
}

TEST(RowGroups, HoldEveryElementOfARowOnce) {
  for (const std::int64_t columns : {1, 5, 8, 13, 16, 50}) {
    for (std::int64_t row = 0; row < 9; ++row) {
      const RowGroups groups{row * columns, (row + 1) * columns};
      std::int64_t next = groups.begin;
      for (std::int64_t i = 0; i < groups.count(); ++i) {
        const GroupPlace at = groups.at(i);
        EXPECT_EQ(at.first, next);
        EXPECT_GE(at.count, 1);
        EXPECT_EQ((at.first - groups.begin) % FloatGroup::size, 0);
        next += at.count;
      }
      EXPECT_EQ(next, groups.end);
    }
  }
  EXPECT_EQ((RowGroups{5, 5}).count(), 0);
}

}  // namespace
}  // namespace pipesim::gpu
