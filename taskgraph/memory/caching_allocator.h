#pragma once

#include <cstdint>
#include <limits>
#include <map>
#include <optional>
#include <set>
#include <tuple>
#include <vector>

#include "sim/base/units.h"

namespace pipesim {

/// PyTorch's caching allocator of one device, with its default settings (c10/cuda/CUDACachingAllocator.cpp of
/// PyTorch 2: round_size, get_allocation_size, should_split, release_cached_blocks).
///
/// Memory comes from the driver in segments and is not given back when tensors are freed. A tensor takes the
/// smallest free block that is large enough, and what it leaves of that is a free block of its own. So a
/// large tensor needs a new segment, even if many small free blocks add up to its size. Tensors up to 1 MiB
/// have segments of 2 MiB of their own; larger ones below 10 MiB share segments of 20 MiB, all others have
/// segments of their size. Each stream has blocks of its own.
///
/// With expandable segments (`expandable_segments:True`) each stream has one segment for small tensors and
/// one for large ones, to whose end the driver adds memory, in pieces of 2 or 20 MiB
/// (try_allocate_expandable_block). A tensor takes the smallest free block that is large enough, as above,
/// where the one at the end counts as large as it can grow (get_free_block): a tensor begins there if no
/// other will do. What is left of a block is always a block of its own.
/// Pieces that were given back leave holes, which PyTorch may fill again and this does not.
class CachingAllocator {
 public:
  enum class Segments : std::uint8_t { Fixed, Expandable };
  using BlockId = std::uint32_t;
  static constexpr Bytes kUnlimited{std::numeric_limits<std::int64_t>::max()};

  /// `capacity`: what the driver gives at most.
  explicit CachingAllocator(Segments segments = Segments::Fixed, Bytes capacity = kUnlimited)
      : segments_(segments), capacity_(capacity) {}

  /// Returns nothing if there is no memory left, even after all segments that hold no tensor were given back,
  /// or, of expandable ones, all whole pieces that hold none.
  std::optional<BlockId> allocate(Bytes bytes, std::int32_t stream = 0);
  void free(BlockId block);

  [[nodiscard]] Bytes allocated() const { return allocated_; }  ///< of blocks, rounded up to 512 bytes
  [[nodiscard]] Bytes reserved() const { return reserved_; }
  [[nodiscard]] Bytes most_allocated() const { return most_allocated_; }
  [[nodiscard]] Bytes most_reserved() const { return most_reserved_; }

 private:
  static constexpr BlockId kNone = std::numeric_limits<BlockId>::max();
  struct Block {
    std::int64_t address = 0, bytes = 0;
    BlockId before = kNone, behind = kNone;  ///< in the same segment
    std::int32_t stream = 0;
    bool small = false, used = false;
  };
  using Pool = std::set<std::tuple<std::int64_t, std::int64_t, BlockId>>;  ///< bytes, address

  Pool& pool_of(const Block& block) { return pools_[{block.stream, block.small}]; }
  BlockId add(const Block& block);
  std::optional<BlockId> take_free(std::int64_t bytes, std::int32_t stream, bool small);
  std::optional<BlockId> take_segment(std::int64_t bytes, std::int32_t stream, bool small);
  std::optional<BlockId> expand(std::int64_t bytes, std::int32_t stream, bool small);
  void split(BlockId id, std::int64_t bytes);
  void join_behind(BlockId id);
  void move_end(BlockId from, BlockId to);
  void give_back_segments();
  bool unmap_free_blocks();

  Segments segments_;
  Bytes capacity_, allocated_, reserved_, most_allocated_, most_reserved_;
  std::int64_t next_address_ = 0;
  std::vector<Block> blocks_;
  std::vector<BlockId> unused_ids_;
  std::map<std::pair<std::int32_t, bool>, Pool> pools_;
  std::map<std::pair<std::int32_t, bool>, BlockId> last_;  ///< of each expandable segment
};

}  // namespace pipesim
