#pragma once

#include <span>
#include <vector>

#include "sim/base/ids.h"
#include "sim/base/units.h"

namespace pipesim {

/// One way in which the operators upstream of a block may be configured, or a bound that is no worse than
/// several ways. Figures are by shard, operator after operator. Times that nothing constrains are 0.
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

  /// Whether this choice is at least as good in every figure.
  [[nodiscard]] bool covers(const UpstreamChoice& other) const;
  /// The least, or the largest, of both in every figure.
  void take_least(const UpstreamChoice& other);
  void take_largest(const UpstreamChoice& other);
  /// What covers another choice never ranks higher.
  [[nodiscard]] Nanoseconds rank() const;

  std::size_t origin = 0;  ///< joint config of the block before

 private:
  [[nodiscard]] std::span<Nanoseconds> part(std::size_t i) {
    return std::span(times_).subspan(i * shards(), shards());
  }
  [[nodiscard]] std::span<const Nanoseconds> part(std::size_t i) const {
    return std::span(times_).subspan(i * shards(), shards());
  }
  std::vector<Nanoseconds> times_;
};

/// Drops choices that others cover. If more than `most` remain, one choice replaces several of the worse
/// ones. Ascending in rank.
void thin_out(std::vector<UpstreamChoice>& choices, std::size_t most);

/// What the operators upstream of one block, under one joint config of it, add to an iteration. Whatever
/// configs they get, at least one of the choices holds.
struct UpstreamBound {
  std::vector<UpstreamChoice> choices;  ///< some for every origin; a single one for the first block
  std::vector<UpstreamChoice> summary;  ///< the same, fewer, without regard to origins
  UpstreamChoice least{0};              ///< of all choices
};

}  // namespace pipesim
