#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
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

  [[nodiscard]] std::int64_t num_shards() const;  ///< INT64_MAX when there are more
  bool operator==(const ParallelConfig&) const = default;
  [[nodiscard]] std::string str(const Operator& op) const;  ///< "n/4 o/2 x2 copies on 16 devices from 0"
  [[nodiscard]] std::string split_str(
      const Operator& op) const;  ///< the part before " on"; "whole" if unsplit
};

/// The unsplit operator on one device.
ParallelConfig single_device(const Operator& op, DeviceId device);

/// Why the config can't be used with this operator on this topology; nothing when it can. Checks the degrees
/// against factor sizes, granules, max_degree and evenness, the Merged rule of every use, and the device
/// list.
std::optional<std::string> illegal(const Operator& op, const ParallelConfig& config,
                                   const Topology& topology);

/// The part of illegal() that does not look at devices.
std::optional<std::string> illegal_degrees(const Operator& op, std::span<const std::int32_t> degrees);

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
  /// Shard k's range of every factor.
  void ranges(std::int64_t shard, std::vector<Range>& out) const;
  [[nodiscard]] bool split(FactorIndex factor) const {
    return degree_[static_cast<std::size_t>(factor + 1)] > 1;
  }

 private:
  std::vector<std::int64_t> degree_, stride_;  // [0]: replicas, [1 + f]: factor f
  std::vector<std::vector<Range>> cuts_;       // [f]: by coordinate
  std::int64_t num_shards_;
};

}  // namespace pipesim
