#include "taskgraph/memory/caching_allocator.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "sim/base/errors.h"

namespace pipesim {
namespace {

constexpr std::int64_t kMiB = 1 << 20;
constexpr std::int64_t kRounding = 512, kSmall = kMiB, kSmallSegment = 2 * kMiB, kMiddle = 10 * kMiB,
                       kMiddleSegment = 20 * kMiB, kLargeRounding = 2 * kMiB;

std::int64_t rounded_up(std::int64_t bytes, std::int64_t to) { return (bytes + to - 1) / to * to; }

std::int64_t bytes_of_segment(std::int64_t bytes) {
  if (bytes <= kSmall) return kSmallSegment;
  return bytes < kMiddle ? kMiddleSegment : rounded_up(bytes, kLargeRounding);
}

// Returns whether what is left of a block becomes one of its own; else it stays with the tensor.
bool is_worth_splitting(std::int64_t left, bool always) { return always ? left >= kRounding : left > kSmall; }

}  // namespace

std::optional<CachingAllocator::BlockId> CachingAllocator::allocate(Bytes bytes, std::int32_t stream) {
  const std::int64_t size = std::max(kRounding, rounded_up(bytes.value, kRounding));
  const bool small = size <= kSmall;
  std::optional<BlockId> id = take_free(size, stream, small);
  if (!id)
    id = segments_ == Segments::Expandable ? expand(size, stream, small) : take_segment(size, stream, small);
  if (!id) return std::nullopt;
  if (is_worth_splitting(blocks_[*id].bytes - size, small || segments_ == Segments::Expandable))
    split(*id, size);
  blocks_[*id].used = true;
  allocated_ += Bytes(blocks_[*id].bytes);
  most_allocated_ = std::max(most_allocated_, allocated_);
  return id;
}

void CachingAllocator::free(BlockId id) {
  if (id >= blocks_.size() || !blocks_[id].used) throw InternalError("a block is freed that is not in use");
  blocks_[id].used = false;
  allocated_ = allocated_ - Bytes(blocks_[id].bytes);
  join_behind(id);
  if (const BlockId before = blocks_[id].before; before != kNone && !blocks_[before].used) {
    pool_of(blocks_[before]).erase({blocks_[before].bytes, blocks_[before].address, before});
    pool_of(blocks_[id]).insert({blocks_[id].bytes, blocks_[id].address, id});
    join_behind(before);
    id = before;
  }
  pool_of(blocks_[id]).insert({blocks_[id].bytes, blocks_[id].address, id});
}

CachingAllocator::BlockId CachingAllocator::add(const Block& block) {
  if (unused_ids_.empty()) {
    blocks_.push_back(block);
    return static_cast<BlockId>(blocks_.size() - 1);
  }
  const BlockId id = unused_ids_.back();
  unused_ids_.pop_back();
  blocks_[id] = block;
  return id;
}

std::optional<CachingAllocator::BlockId> CachingAllocator::take_free(std::int64_t bytes, std::int32_t stream,
                                                                     bool small) {
  Pool& pool = pools_[{stream, small}];
  auto found = pool.lower_bound({bytes, 0, 0});
  if (found == pool.end()) return std::nullopt;
  // What is at the end of an expandable segment counts as large as it can grow.
  const auto last = last_.find({stream, small});
  if (last != last_.end() && std::get<BlockId>(*found) == last->second && std::next(found) != pool.end())
    ++found;
  const BlockId id = std::get<BlockId>(*found);
  pool.erase(found);
  return id;
}

std::optional<CachingAllocator::BlockId> CachingAllocator::take_segment(std::int64_t bytes,
                                                                        std::int32_t stream, bool small) {
  const std::int64_t segment = bytes_of_segment(bytes);
  if (segment > capacity_.value - reserved_.value) give_back_segments();
  if (segment > capacity_.value - reserved_.value) return std::nullopt;
  reserved_ += Bytes(segment);
  most_reserved_ = std::max(most_reserved_, reserved_);
  Block block;
  block.address = next_address_;
  block.bytes = segment;
  block.stream = stream;
  block.small = small;
  next_address_ += segment;
  return add(block);
}

// Returns a block at the end of the segment, which is in no pool.
std::optional<CachingAllocator::BlockId> CachingAllocator::expand(std::int64_t bytes, std::int32_t stream,
                                                                  bool small) {
  const auto [last, fresh] = last_.try_emplace({stream, small}, kNone);
  const BlockId end = last->second;
  const bool extends = end != kNone && !blocks_[end].used;
  const std::int64_t more =
      rounded_up(bytes - (extends ? blocks_[end].bytes : 0), small ? kSmallSegment : kMiddleSegment);
  if (more > capacity_.value - reserved_.value) {
    if (!unmap_free_blocks()) return std::nullopt;
    return expand(bytes, stream, small);
  }
  reserved_ += Bytes(more);
  most_reserved_ = std::max(most_reserved_, reserved_);
  if (extends) {
    pool_of(blocks_[end]).erase({blocks_[end].bytes, blocks_[end].address, end});
    blocks_[end].bytes += more;
    return end;
  }
  Block block;
  block.address = end == kNone ? 0 : blocks_[end].address + blocks_[end].bytes;
  block.bytes = more;
  block.before = end;
  block.stream = stream;
  block.small = small;
  const BlockId id = add(block);
  if (end != kNone) blocks_[end].behind = id;
  last->second = id;
  return id;
}

// Leaves the rest of a block that is in no pool as a free block behind it.
void CachingAllocator::split(BlockId id, std::int64_t bytes) {
  Block rest = blocks_[id];
  rest.address += bytes;
  rest.bytes -= bytes;
  rest.before = id;
  const BlockId behind = add(rest);
  if (rest.behind != kNone) blocks_[rest.behind].before = behind;
  move_end(id, behind);
  blocks_[id].bytes = bytes;
  blocks_[id].behind = behind;
  pool_of(rest).insert({rest.bytes, rest.address, behind});
}

// Joins a block that is in no pool with the free one behind it, if there is one.
void CachingAllocator::join_behind(BlockId id) {
  const BlockId behind = blocks_[id].behind;
  if (behind == kNone || blocks_[behind].used) return;
  const Block gone = blocks_[behind];
  pool_of(gone).erase({gone.bytes, gone.address, behind});
  blocks_[id].bytes += gone.bytes;
  blocks_[id].behind = gone.behind;
  if (gone.behind != kNone) blocks_[gone.behind].before = id;
  move_end(behind, id);
  unused_ids_.push_back(behind);
}

// The last block of an expandable segment is another one now.
void CachingAllocator::move_end(BlockId from, BlockId to) {
  const auto last = last_.find({blocks_[from].stream, blocks_[from].small});
  if (last != last_.end() && last->second == from) last->second = to;
}

void CachingAllocator::give_back_segments() {
  for (auto& [key, pool] : pools_) {
    std::erase_if(pool, [&](const auto& free) {
      const BlockId id = std::get<BlockId>(free);
      if (blocks_[id].before != kNone || blocks_[id].behind != kNone) return false;
      reserved_ = reserved_ - Bytes(blocks_[id].bytes);
      unused_ids_.push_back(id);
      return true;
    });
  }
}

// Returns whether something was given back. Only whole pieces are; where they were, there is a block of no
// bytes in use, so that what lies on both sides of it is never joined.
bool CachingAllocator::unmap_free_blocks() {
  const Bytes before = reserved_;
  for (auto& [key, pool] : pools_) {
    const std::int64_t piece = key.second ? kSmallSegment : kMiddleSegment;
    const Pool free = std::exchange(pool, {});
    for (const auto& [bytes, address, id] : free) {
      const std::int64_t left = bytes % piece;
      if (left == bytes) {
        pool.insert({bytes, address, id});
        continue;
      }
      reserved_ = reserved_ - Bytes(bytes - left);
      if (left > 0) {
        split(id, left);  // the rest goes into the pool
        const BlockId rest = blocks_[id].behind;
        pool.erase({blocks_[rest].bytes, blocks_[rest].address, rest});
        pool.insert({left, address, id});
        blocks_[rest].bytes = 0;
        blocks_[rest].used = true;
      } else {
        blocks_[id].bytes = 0;
        blocks_[id].used = true;
      }
    }
  }
  return reserved_ < before;
}

}  // namespace pipesim
