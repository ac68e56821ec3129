#pragma once

#include <span>
#include <vector>

#include "sim/base/ids.h"
#include "sim/base/units.h"

namespace pipesim {

/// One way all that lies upstream of an operator may go on, or no worse than several ways: figures by shard of the
/// operator. Times that nothing constrains are 0.
///   release: its forward pass can't start before
///   path: the iteration lasts at least so long from the moment that the shard's gradient is there
///   lane: the shard's device computes at least so long from then on
/// path and lane count the shard's own backward passes.
class UpstreamChoice {
 public:
  explicit UpstreamChoice(std::size_t shards, std::size_t from = 0) : origin(from), times_(3 * shards, 0) {}

  [[nodiscard]] std::span<Nanoseconds> release() { return part(0); }
  [[nodiscard]] std::span<Nanoseconds> path() { return part(1); }
  [[nodiscard]] std::span<Nanoseconds> lane() { return part(2); }
  [[nodiscard]] std::span<const Nanoseconds> release() const { return part(0); }
  [[nodiscard]] std::span<const Nanoseconds> path() const { return part(1); }
  [[nodiscard]] std::span<const Nanoseconds> lane() const { return part(2); }
  [[nodiscard]] std::size_t shards() const { return times_.size() / 3; }

  /// At least as good everywhere.
  [[nodiscard]] bool covers(const UpstreamChoice& other) const;
  /// The least, or the largest, of both in every figure.
  void take_least(const UpstreamChoice& other);
  void take_largest(const UpstreamChoice& other);
  /// Best first.
  [[nodiscard]] Nanoseconds rank() const;

  std::size_t origin = 0;  ///< config of the producer that it starts with

 private:
  [[nodiscard]] std::span<Nanoseconds> part(std::size_t i) {
    return std::span(times_).subspan(i * shards(), shards());
  }
  [[nodiscard]] std::span<const Nanoseconds> part(std::size_t i) const {
    return std::span(times_).subspan(i * shards(), shards());
  }
  std::vector<Nanoseconds> times_;
};

/// Drops choices that others cover; if more than `most` are left, lets one stand for several of the worse ones, all of
/// one origin if `keep_origins`.
void thin_out(std::vector<UpstreamChoice>& choices, std::size_t most, bool keep_origins);

/// The choices upstream that lead through one producer, by the producer's config.
struct UpstreamEdge {
  OperatorId producer;
  std::vector<UpstreamChoice> choices;
};

/// What all that lies upstream of one operator under one config adds to an iteration, whatever configs the operators
/// there get: for each edge, one of its choices holds.
struct UpstreamBound {
  std::vector<UpstreamEdge> edges;
  std::vector<UpstreamChoice> choices;  ///< of all edges together
  UpstreamChoice least{0};              ///< of all choices
};

/// Upstream bounds by operator; null: nothing is known.
using UpstreamBounds = std::vector<const UpstreamBound*>;

}  // namespace pipesim
