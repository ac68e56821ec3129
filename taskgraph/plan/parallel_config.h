#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "models/operator.h"
#include "topologies/topology.h"

namespace pipesim {

/// How one operator is split: a degree per factor, replicas, and the device of every shard. Shards are
/// numbered row-major over (replica, factor 0, factor 1, …), the last factor fastest.
struct ParallelConfig {
  std::vector<std::int32_t> degrees;  ///< one per factor of the operator, ≥ 1
  std::int32_t replicas = 1;          ///< shards that compute the same thing
  std::vector<DeviceId> devices;      ///< one distinct device per shard, in shard order
  /// Shards that divide queries (Operator::rotation) hold the same parts of keys and values, and pass them
  /// round a ring. Otherwise each holds all keys that it needs.
  bool ring = false;

  [[nodiscard]] std::int64_t num_shards() const;  ///< INT64_MAX when there are more
  bool operator==(const ParallelConfig&) const = default;
  [[nodiscard]] std::string str(const Operator& op) const;  ///< "n/4 o/2 x2 copies on 16 devices from 0"
  [[nodiscard]] std::string split_str(
      const Operator& op) const;  ///< the part before " on"; "whole" if unsplit
};

/// Reads what split_str() writes: "n/4 o/2 x2 copies", with blanks or commas between; no devices. InputError
/// that names the part, and what is allowed for this operator; the degrees may be illegal.
ParallelConfig parse_split(const Operator& op, std::string_view text);

/// The unsplit operator on one device.
ParallelConfig single_device(const Operator& op, DeviceId device);

/// Why the config can't be used with this operator on this topology; nothing when it can. Checks the degrees
/// against factor sizes, granules, max_degree and evenness, the Merged rule of every use, and the device
/// list.
std::optional<std::string> illegal(const Operator& op, const ParallelConfig& config,
                                   const Topology& topology);

/// The part of illegal() that does not look at devices.
std::optional<std::string> illegal_degrees(const Operator& op, std::span<const std::int32_t> degrees);

/// Why the operator can't pass keys and values round a ring under these degrees.
std::optional<std::string> illegal_ring(const Operator& op, std::span<const std::int32_t> degrees);

/// The part of illegal() that does not look at devices, of a whole config. As many shards are allowed as
/// topologies can have devices.
std::optional<std::string> illegal_split(const Operator& op, const ParallelConfig& config);

/// Coordinates of the shards of a config: position along the replica degree and along each factor.
class ShardGrid {
 public:
  ShardGrid(const Operator& op, const ParallelConfig& config);
  [[nodiscard]] std::int64_t num_shards() const { return num_shards_; }
  /// Coordinate of shard k along a factor, or along the replicas for `replica_axis`.
  [[nodiscard]] std::int64_t coordinate(std::int64_t shard, FactorIndex factor) const {
    const auto axis = static_cast<std::size_t>(factor + 1);
    return shard / stride_[axis] % degree_[axis];
  }
  static constexpr FactorIndex replica_axis = -1;
  /// Shard k's range of every factor: what it holds. In a ring, its own part of the keys.
  void ranges(std::int64_t shard, std::vector<Range>& out) const;
  /// The number of parts that pass through shard k one after the other: as many as the ring has members, else
  /// 1.
  [[nodiscard]] std::int64_t blocks() const { return rotation_ ? degree_of(rotation_->first) : 1; }
  /// The ranges that shard k works on at a time: its own part first, then those of the members before it in
  /// the ring, the nearest first.
  void block_ranges(std::int64_t shard, std::int64_t block, std::vector<Range>& out) const;
  /// Returns groups of shards that differ along these factors only. Shards ascend in each group, and groups
  /// ascend by their other coordinates.
  [[nodiscard]] std::vector<std::vector<std::int32_t>> groups_along(std::span<const FactorIndex> over) const;
  [[nodiscard]] bool split(FactorIndex factor) const {
    return degree_[static_cast<std::size_t>(factor + 1)] > 1;
  }

 private:
  [[nodiscard]] std::int64_t degree_of(FactorIndex factor) const {
    return degree_[static_cast<std::size_t>(factor + 1)];
  }
  std::optional<std::pair<FactorIndex, FactorIndex>> rotation_;  // of a ring
  std::vector<std::int64_t> degree_, stride_;                    // [0]: replicas, [1 + f]: factor f
  std::vector<std::vector<Range>> cuts_;                         // [f]: by coordinate
  std::int64_t num_shards_;
};

}  // namespace pipesim
