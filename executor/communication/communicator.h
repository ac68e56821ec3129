#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "sim/base/data_type.h"

namespace pipesim {

enum class ReduceOperation : std::uint8_t { Sum, Max };

/// Moves data between the members of a group. Every member has its own Communicator of the group and makes
/// the same calls. Calls are matched by group and `tag`; so calls with different tags may run at the same
/// time, made from different threads in any order. A tag is free again when its call has returned. Tags of
/// different groups never clash, even if the groups overlap; but groups of the same members in the same order
/// count as one. A call returns when its result is complete and its inputs may be overwritten. Ranks are
/// positions in the group. Memory has the alignment of the type.
///
/// Sums are formed in rank order, in float32 for 16-bit types. Each element is summed by one member only, or
/// by all in the same way, so all members get the same bits in every implementation. Integers wrap around;
/// the maximum with a NaN is NaN. Zero elements are allowed everywhere; then no member waits for another.
///
/// DeviceError when a peer fails or disappears: every other member's pending and later calls throw within
/// seconds and name it. InternalError when members do not make the same call.
class Communicator {
 public:
  virtual ~Communicator() = default;
  [[nodiscard]] virtual int rank() const = 0;
  [[nodiscard]] virtual int size() const = 0;

  /// `data`: `elements` elements of this member's addend, replaced by the sum or maximum over all members.
  virtual void all_reduce(void* data, std::int64_t elements, DataType type, ReduceOperation operation,
                          std::int64_t tag) = 0;
  /// Only the root's `result` is written; it may be the root's own `data`.
  virtual void reduce(const void* data, void* result, std::int64_t elements, DataType type,
                      ReduceOperation operation, int root, std::int64_t tag) = 0;
  /// `data`: size() blocks of `elements`; `result`: the reduced block number rank().
  virtual void reduce_scatter(const void* data, void* result, std::int64_t elements, DataType type,
                              ReduceOperation operation, std::int64_t tag) = 0;
  /// `data`: `elements`; `result`: size() blocks of them in rank order.
  virtual void all_gather(const void* data, void* result, std::int64_t elements, DataType type,
                          std::int64_t tag) = 0;
  /// `data`: a block of `elements` for every member; `result`: a block from every member.
  virtual void all_to_all(const void* data, void* result, std::int64_t elements, DataType type,
                          std::int64_t tag) = 0;
  virtual void broadcast(void* data, std::int64_t elements, DataType type, int root, std::int64_t tag) = 0;
  virtual void send(const void* data, std::int64_t elements, DataType type, int to, std::int64_t tag) = 0;
  virtual void receive(void* data, std::int64_t elements, DataType type, int from, std::int64_t tag) = 0;

  /// The group of `members` (ranks of this group, in the new order), called by those members only, without
  /// any exchange between them.
  [[nodiscard]] virtual std::unique_ptr<Communicator> group(std::span<const int> members) = 0;
  /// Called by all members. Those with equal `color` form a group, ordered by (key, rank). No group for a
  /// negative color.
  [[nodiscard]] virtual std::unique_ptr<Communicator> split(int color, int key, std::int64_t tag) = 0;
  /// Makes pending and later calls of all members throw a DeviceError with this reason.
  virtual void abort(const std::string& reason) = 0;
};

}  // namespace pipesim
