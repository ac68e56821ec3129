#pragma once

#include <cstdint>
#include <limits>
#include <string_view>
#include <vector>

#include "costmodel/correction.h"
#include "costmodel/ratio_curve.h"
#include "sim/base/ids.h"
#include "sim/base/units.h"

namespace pipesim {

/// A lane that a transfer or collective holds, and for how long.
struct LaneHold {
  LaneId lane;
  Seconds hold;
  bool operator==(const LaneHold&) const = default;
};

enum class Collective : std::uint8_t {
  AllReduce,
  ReduceScatter,
  AllGather,
  AllToAll,
  Broadcast,
  Reduce,
  Send
};
std::string_view name_of(Collective kind);  ///< "all-reduce", …, "send"

/// Bytes that all links together must carry, as the operator algebra counts them. `size` is the size of the
/// whole buffer. That is what every device holds (all-reduce, broadcast, reduce, input of reduce-scatter,
/// output of all-gather), the sum over all devices (all-to-all), or the message (send). n = group size.
///   all-reduce                                     2(n−1)·size
///   reduce-scatter, all-gather, broadcast, reduce  (n−1)·size
///   all-to-all                                     (n−1)/n·size
///   send                                           size
std::int64_t bytes_on_links(Collective kind, std::int64_t n, Bytes size);

/// Time of one collective, and the lanes that it holds. duration ≥ latency + the longest hold of a link; both
/// are equal where the algorithm has a single phase. The compute lane of a device that can't overlap
/// communication with compute is held for the whole duration.
struct CollectiveTime {
  Seconds duration;
  Seconds latency;              ///< the part that does not grow with size
  std::vector<LaneHold> lanes;  ///< sorted by lane, distinct
  std::string_view algorithm;   ///< CollectiveAlgorithm::name
};

/// What one lane carries in one phase of an algorithm.
struct LaneLoad {
  LaneId lane;
  std::int32_t phase = 0;
  double seconds_per_byte = 0;  ///< of the collective's size
  bool operator==(const LaneLoad&) const = default;
};

/// A part of an algorithm in which chunks stream through all its lanes at once.
struct Phase {
  double seconds_per_byte = 0;  ///< of the busiest lane, with what the protocol adds to its bytes
  double chunk_overhead = 0;    ///< κ in seconds: what a chunk costs beside its bytes; 0: sent whole
  double carried = 1;           ///< the part of seconds_per_byte that the busiest lane's own bytes take
};

inline constexpr Bytes any_size(std::numeric_limits<std::int64_t>::max());

/// One way to do a collective on one group: everything but the size.
struct CollectiveAlgorithm {
  /// "ring", "tree", "hierarchical", "direct", "by nodes", "broadcast", "route" (send); with NCCL's protocols
  /// also "ring LL", "ring LL128", "ring Simple", "NVLS" (links/protocols.h)
  std::string_view name;
  Seconds latency;
  std::vector<Phase> phases;        ///< one after the other
  std::vector<LaneLoad> loads;      ///< sorted by lane, then phase
  Bytes least{0}, most = any_size;  ///< it is taken from `least` bytes up to below `most`

  /// latency + Σ over phases T + 2√(κT), T = size · seconds per byte. A phase cut into c chunks takes T + κ·c
  /// for the chunks and T/c until the pipeline is full; the best c gives the root. It is the γ√S of measured
  /// NCCL times.
  [[nodiscard]] Seconds duration_at(Bytes size) const;
};

/// A collective of one kind on one group with the size left open. Costly to make, cheap to ask: cache it.
class CollectivePlan {
 public:
  /// `compute_lanes`: of the members that can't compute and communicate at once.
  CollectivePlan(std::vector<CollectiveAlgorithm> algorithms, std::vector<LaneId> compute_lanes);

  /// Switches to measured times: every analytic duration and hold is multiplied by the ratio at its size, and
  /// then corrected unless this very size was measured. The correction's overhead holds no link. `ratios`: by
  /// bytes.
  void calibrate(RatioCurve ratios, const Correction& correction);

  /// Returns the best algorithm at this size. Where a library changes to a protocol that is faster, fewer
  /// bytes below the change take no longer than more bytes above it, so that times grow with the size.
  /// InternalError when the size is negative.
  [[nodiscard]] CollectiveTime at(Bytes size) const;
  /// The same, written to `out`, whose memory is reused.
  void at(Bytes size, CollectiveTime& out) const;
  /// at(size).duration without building the list of lanes.
  [[nodiscard]] Seconds duration_at(Bytes size) const;
  /// The source of at(size).duration.
  [[nodiscard]] DurationSource source_at(Bytes size) const { return ratio_at(size).source; }
  [[nodiscard]] const std::vector<CollectiveAlgorithm>& algorithms() const { return algorithms_; }

 private:
  /// An algorithm, and the size at which it is asked: the message's, or the algorithm's least size if that is
  /// larger.
  struct Choice {
    const CollectiveAlgorithm& algorithm;
    Bytes size;
    [[nodiscard]] Seconds duration() const { return algorithm.duration_at(size); }
  };
  [[nodiscard]] Choice best_at(Bytes size) const;
  [[nodiscard]] RatioCurve::Value ratio_at(Bytes size) const;
  [[nodiscard]] Correction correction_for(DurationSource source) const;

  std::vector<CollectiveAlgorithm> algorithms_;
  std::vector<LaneId> compute_lanes_;
  RatioCurve ratios_;
  Correction correction_;
};

}  // namespace pipesim
