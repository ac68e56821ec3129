#pragma once

#include <optional>
#include <string>
#include <vector>

#include "search/evaluator.h"

namespace pipesim {

/// What the time of an iteration would be with one figure a tenth better.
struct Sensitivity {
  std::string figure;  ///< as change_topology() names it ("inter_node.bandwidth"), or "runtime.host"
  std::string value;   ///< "x1.1" of rates, "x0.9" of times
  /// The length of today's critical path with the durations that its tasks would have; nothing where the plan
  /// would have other tasks then (another way to move data, say), or its schedule has no end. The iteration
  /// can't become shorter than that, but where all lanes keep their order it takes as long.
  std::optional<Nanoseconds> first_order;
  std::optional<Nanoseconds> simulated;  ///< of the plan, simulated anew; where it was asked for
};

/// What is asked: a plan, and what predicts its time.
struct SensitivityRequest {
  const OperatorGraph& graph;
  const Topology& topology;
  const Calibration* calibration = nullptr;  ///< null: none
  const Runtime& runtime;
  const PlanOptions& options;
  const Strategy& strategy;
  bool simulate = true;  ///< also simulate each
};
struct Sensitivities {
  Nanoseconds time = 0;  ///< as it is
  Bytes needs, has;      ///< of memory, for plans: the device that is fullest by its share
  std::vector<Sensitivity> figures;
};

/// Returns the sensitivities to all rates and latencies that the topology has, and to the host. Walks back
/// once over what each task waited for (sim/explain.h), and gives each figure the tasks of the path that
/// depend on it: passes and updates on figures of devices, communication and what it takes from compute on
/// links and on the bandwidth of memory, launches on the host. So the tasks of one expansion tell about a
/// figure of each, and all first-order figures together take at most five predictions of the plan with other
/// prices (Evaluator::with()) beside its evaluation. More memory changes no time of a plan, so that is told
/// as bytes.
Sensitivities sensitivities(const SensitivityRequest& request);

}  // namespace pipesim
