#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "costmodel/constants/cluster_constants.h"
#include "tools/analysis/traces/trace_analysis.h"
#include "topologies/topology.h"

namespace pipesim {

/// What a prediction says of a step on the traced device, for constants that kernels alone do not tell.
struct PredictedShares {
  Seconds host;    ///< time that the process of the device launches
  Seconds update;  ///< time of weight updates
  /// Whether the file gets the host's factor. The profiler makes the host slower, so that runs without it
  /// would be predicted to take too long.
  bool keep_host = false;
};

/// A constant and what it rests on.
struct TracedConstant {
  Constant constant;
  double deviation = 0;  ///< standard deviation of the factor's logarithm
  std::string evidence;  ///< "12 shapes, 34 % of the time of kernels"
  bool in_file = true;
};

struct TracedConstants {
  ClusterConstants constants;         ///< as the file has them: those that the trace tells, and no others
  std::vector<TracedConstant> found;  ///< with those that the file leaves out
};

/// Factors on the figures of a topology and a runtime:
///   - products, attention: rates of operators whose shapes tell their FLOPs, against what the cost model
///   says
///     of the same shapes. A trace shorter than half a second is a short run: power does not limit the clock
///     yet, so products are compared with what they reach without that (DeviceKind::sustained);
///   - memory: bandwidth of operators that move more than caches hold (200 MB);
///   - node links, network links, latency: α and β of process groups, against those of the cost model for the
///     same sizes and devices (rank r is device r of the topology);
///   - host, update: only with a prediction of the same step.
/// A factor's logarithm is the mean over shapes (or groups), weighted by their time, with a normal prior
/// around 0 (prior_deviation()); its variance is that of the mean over shapes. Of one shape alone, the
/// prior's deviation stands for the spread. The discrepancy is the spread over all shapes; without shapes,
/// the prior's deviation of products. InputError when the topology or the traces have several kinds of
/// devices, or the trace tells no constant.
TracedConstants constants_of(const TraceAnalysis& analysis, std::span<const MeasuredTrace> traces,
                             const Topology& topology, const Runtime& runtime,
                             const std::optional<PredictedShares>& predicted);

}  // namespace pipesim
