#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "costmodel/collectives.h"
#include "tools/analysis/traces/trace_steps.h"

namespace pipesim {

/// Collectives of one size.
struct CollectivePoint {
  Bytes size;  ///< of the whole buffer, as CollectiveTime counts it
  std::int64_t calls = 0;
  Seconds time;  ///< without waiting for members that arrive late
  bool operator==(const CollectivePoint&) const = default;
};

/// Time = α + β · bytes.
struct LineFit {
  double alpha = 0;                                ///< seconds, at least 0
  double beta = 0;                                 ///< seconds per byte
  double alpha_deviation = 0, beta_deviation = 0;  ///< standard deviations; 0 for two points
};
/// The line with the least sum of squares of relative errors; α is not below 0. Nothing with fewer than two
/// sizes, or where time does not grow with size. Points have weights `calls`.
std::optional<LineFit> fit_line(const std::vector<CollectivePoint>& points);

/// Collectives of one kind in one process group.
struct GroupTimes {
  std::string group, ranks;  ///< as recorded: "0", "[0, 1]"
  std::string name;          ///< as recorded: "allreduce"
  std::optional<Collective> kind;
  std::vector<std::int64_t> members;  ///< ranks, as far as they are recorded
  std::int64_t group_size = 0;
  std::size_t traces = 0;               ///< ranks whose trace is given
  std::vector<CollectivePoint> points;  ///< by size
  std::optional<LineFit> fit;
  Seconds recorded, waited;  ///< sum over calls and ranks: kernels' times, and what of it was waiting
};

/// Returns the α and β of process groups. In several traces, each of one rank, the n-th call in a group is
/// one collective: it takes as long as on the member that arrived last, whose kernel is the shortest, so
/// clocks need not agree. Where ranks recorded different numbers or sizes of calls, only calls that agree
/// count. In a single trace, a size takes the least time of its calls, since any of them may have waited.
std::vector<GroupTimes> collective_times(std::span<const MeasuredTrace> traces);

/// "allreduce", "_allgather_base", "reduce_scatter_tensor_coalesced" and the like; nothing for other names.
std::optional<Collective> traced_collective(std::string_view name);

}  // namespace pipesim
