#include "taskgraph/memory/caching_allocator.h"

#include <gtest/gtest.h>

#include <vector>

#include "tests/seeds.h"

namespace pipesim {
namespace {

using AllocatorSegments = CachingAllocator::Segments;
constexpr std::int64_t kMiB = 1 << 20;

Bytes mib(std::int64_t count) { return Bytes(count * kMiB); }

TEST(CachingAllocator, TakesSegmentsOfThreeKinds) {
  const auto taken = [](Bytes bytes) {
    CachingAllocator allocator;
    EXPECT_TRUE(allocator.allocate(bytes));
    return std::pair(allocator.allocated(), allocator.reserved());
  };
  EXPECT_EQ(taken(Bytes(1)), std::pair(Bytes(512), mib(2)));
  EXPECT_EQ(taken(Bytes(513)), std::pair(Bytes(1024), mib(2)));
  EXPECT_EQ(taken(mib(1)), std::pair(mib(1), mib(2)));
  EXPECT_EQ(taken(mib(1) + Bytes(1)), std::pair(mib(1) + Bytes(512), mib(20)));
  EXPECT_EQ(taken(mib(10)), std::pair(mib(10), mib(10)));
  // Less than 1 MiB is left of a segment of 12 MiB, so it stays with the tensor.
  EXPECT_EQ(taken(Bytes(11 * kMiB + kMiB / 2)), std::pair(mib(12), mib(12)));
  EXPECT_EQ(taken(Bytes(10 * kMiB + kMiB / 2)), std::pair(Bytes(10 * kMiB + kMiB / 2), mib(12)));
}

TEST(CachingAllocator, SplitsAndJoinsBlocks) {
  CachingAllocator allocator;
  allocator.free(*allocator.allocate(mib(100)));
  EXPECT_EQ(allocator.allocated(), Bytes(0));
  const auto first = allocator.allocate(mib(30)), second = allocator.allocate(mib(60));
  EXPECT_EQ(allocator.reserved(), mib(100));
  const auto third = allocator.allocate(mib(20));  // 10 MiB are left
  EXPECT_EQ(allocator.reserved(), mib(120));
  allocator.free(*first);
  allocator.free(*third);
  allocator.free(*second);
  EXPECT_TRUE(allocator.allocate(mib(100)));
  EXPECT_EQ(allocator.reserved(), mib(120));
  EXPECT_EQ(allocator.most_allocated(), mib(110));
}

// Two free blocks of 50 MiB have room for a tensor of 100 MiB only where they lie side by side.
TEST(CachingAllocator, LargeTensorsFindNoRoomInSmallBlocks) {
  for (const AllocatorSegments segments : {AllocatorSegments::Fixed, AllocatorSegments::Expandable}) {
    CachingAllocator allocator(segments);
    const auto first = allocator.allocate(mib(60)), second = allocator.allocate(mib(60));
    allocator.free(*first);
    allocator.free(*second);
    EXPECT_TRUE(allocator.allocate(mib(120)));
    EXPECT_EQ(allocator.reserved(), segments == AllocatorSegments::Fixed ? mib(240) : mib(120));
  }
}

// Pieces of 20 MiB: 40 for the first tensor, 20 for the second. The third one begins in the 10 MiB at the end
// and leaves the hole of 40 MiB as it is.
TEST(CachingAllocator, ExpandableSegmentsGrowAtTheirEnd) {
  CachingAllocator allocator(AllocatorSegments::Expandable);
  const auto first = allocator.allocate(mib(40)), second = allocator.allocate(mib(10));
  EXPECT_EQ(allocator.reserved(), mib(60));
  allocator.free(*first);
  const auto third = allocator.allocate(mib(60));
  EXPECT_EQ(allocator.reserved(), mib(120));
  EXPECT_TRUE(allocator.allocate(mib(40)));
  EXPECT_EQ(allocator.reserved(), mib(120));
  allocator.free(*second);
  allocator.free(*third);
  EXPECT_TRUE(allocator.allocate(mib(70)));
  EXPECT_EQ(allocator.reserved(), mib(120));
}

TEST(CachingAllocator, GivesBackSegmentsBeforeItFails) {
  CachingAllocator allocator(AllocatorSegments::Fixed, mib(100));
  allocator.free(*allocator.allocate(mib(60)));
  const auto large = allocator.allocate(mib(80));
  ASSERT_TRUE(large);
  EXPECT_EQ(allocator.reserved(), mib(80));
  allocator.free(*large);
  EXPECT_TRUE(allocator.allocate(mib(30)));  // a part of the segment of 80 MiB, which therefore stays
  EXPECT_FALSE(allocator.allocate(mib(60)));
  EXPECT_TRUE(allocator.allocate(mib(50)));
}

// Two pieces of 20 MiB of a free block of 50 MiB can go, and other streams get them. What is freed beside
// the hole later is not joined over it.
TEST(CachingAllocator, GivesBackPiecesOfExpandableSegments) {
  CachingAllocator allocator(AllocatorSegments::Expandable, mib(120));
  const auto first = allocator.allocate(mib(50)), second = allocator.allocate(mib(50));
  ASSERT_TRUE(first && second);
  EXPECT_EQ(allocator.reserved(), mib(100));
  EXPECT_FALSE(allocator.allocate(mib(60), 1));
  EXPECT_EQ(allocator.reserved(), mib(100));
  allocator.free(*first);
  EXPECT_TRUE(allocator.allocate(mib(60), 1));
  EXPECT_EQ(allocator.reserved(), mib(120));
  allocator.free(*second);
  EXPECT_TRUE(allocator.allocate(mib(50)));
  EXPECT_EQ(allocator.allocated(), mib(110));
}

// The block at the end, of 20 MiB, is the smallest that is large enough; but it could grow, so one of 40 MiB
// goes before it.
TEST(CachingAllocator, ExpandableSegmentsUseTheirEndLast) {
  CachingAllocator allocator(AllocatorSegments::Expandable);
  const auto hole = allocator.allocate(mib(40)), between = allocator.allocate(mib(20)),
             last = allocator.allocate(mib(20));
  ASSERT_TRUE(hole && between && last);
  allocator.free(*hole);
  allocator.free(*last);
  EXPECT_TRUE(allocator.allocate(mib(20)));
  EXPECT_TRUE(allocator.allocate(mib(20)));  // the hole is full now
  allocator.free(*between);
  EXPECT_TRUE(allocator.allocate(mib(40)));  // between and the end, side by side
  EXPECT_EQ(allocator.reserved(), mib(80));
}

TEST(CachingAllocator, StreamsHaveBlocksOfTheirOwn) {
  CachingAllocator allocator;
  allocator.free(*allocator.allocate(mib(50), 1));
  EXPECT_TRUE(allocator.allocate(mib(50), 0));
  EXPECT_EQ(allocator.reserved(), mib(100));
  EXPECT_TRUE(allocator.allocate(mib(50), 1));
  EXPECT_EQ(allocator.reserved(), mib(100));
}

// At any time tensors lie within what is reserved; a block is at most 1 MiB larger than its tensor, in
// expandable segments less than 512 bytes; and when all are freed, all of an expandable segment is one block.
TEST(CachingAllocator, HoldsWhatTensorsTake) {
  for_each_seed(60, [&](Rng& rng) {
    const AllocatorSegments segments =
        rng.below(2) == 0 ? AllocatorSegments::Fixed : AllocatorSegments::Expandable;
    CachingAllocator allocator(segments);
    std::vector<std::pair<CachingAllocator::BlockId, std::int64_t>> live;
    std::int64_t asked = 0, most = 0;
    for (int i = 0; i < 200; ++i) {
      if (!live.empty() && rng.below(5) < 2) {
        const std::size_t which = rng.below(live.size());
        allocator.free(live[which].first);
        asked -= live[which].second;
        live.erase(live.begin() + static_cast<std::ptrdiff_t>(which));
      } else {
        const auto bytes = static_cast<std::int64_t>(rng.below(40 * kMiB)) + kMiB + 1;
        live.emplace_back(*allocator.allocate(Bytes(bytes)), bytes);
        asked += bytes;
      }
      most = std::max(most, asked);
      const auto spare =
          static_cast<std::int64_t>(live.size()) * (segments == AllocatorSegments::Fixed ? kMiB + 512 : 512);
      EXPECT_GE(allocator.allocated(), Bytes(asked));
      EXPECT_LE(allocator.allocated(), Bytes(asked + spare));
      EXPECT_GE(allocator.reserved(), allocator.allocated());
      EXPECT_EQ(allocator.reserved(), allocator.most_reserved());
    }
    EXPECT_GE(allocator.most_allocated(), Bytes(most));
    for (const auto& [block, bytes] : live) allocator.free(block);
    EXPECT_EQ(allocator.allocated(), Bytes(0));
    if (segments == AllocatorSegments::Fixed) return;
    const Bytes reserved = allocator.reserved();
    EXPECT_TRUE(allocator.allocate(reserved));
    EXPECT_EQ(allocator.reserved(), reserved);
  });
}

}  // namespace
}  // namespace pipesim
