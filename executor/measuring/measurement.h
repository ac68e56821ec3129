#pragma once

#include <span>
#include <string>
#include <vector>

#include "executor/measuring/host_noise.h"
#include "executor/run/execution.h"
#include "models/operator_graph.h"
#include "taskgraph/expansion/task_graph.h"
#include "topologies/topology.h"

namespace pipesim {

/// Iteration times of repeated steps. Steps during which the system took the processor from one of our
/// threads are counted and left out.
struct StepStatistics {
  std::size_t steps = 0, preempted = 0;
  Nanoseconds median = 0;
  Nanoseconds low = 0, high = 0;   ///< 95 % interval of the median, from order statistics
  Nanoseconds fast = 0, slow = 0;  ///< 5 % and 95 % of the iterations are faster
  double spread = 0;               ///< (75 % quantile − 25 % quantile) / median
};

/// Why a measurement can't be relied on: "host not quiet: …"; nothing when it can.
std::string why_not_quiet(const StepStatistics& statistics, const HostNoise& noise);

StepStatistics statistics_of(std::span<const StepRecord> steps);
/// Returns the steps that count: those that were not preempted, or all of them when too few were not.
std::vector<const StepRecord*> clean_steps(std::span<const StepRecord> steps);

/// Predicted and measured time of everything that goes by one name, summed over devices and its tasks of a
/// step.
struct TimeDifference {
  std::string name;
  std::size_t tasks = 0;
  double predicted = 0, measured = 0;  ///< seconds
  [[nodiscard]] double difference() const { return measured - predicted; }
};

/// By operator and pass ("conv1 forward"), largest difference first. Median over the steps.
std::vector<TimeDifference> operator_differences(std::span<const StepRecord* const> steps,
                                                 const TaskGraph& tasks, const OperatorGraph& graph);
/// By kind of collective and devices ("all-reduce over gpu0, gpu1"; "gpu0 -> gpu1"), largest difference
/// first. The measured time of a collective begins when its last member has come.
std::vector<TimeDifference> link_differences(std::span<const StepRecord* const> steps, const TaskGraph& tasks,
                                             const Topology& topology);

/// Mean time between the moment when an instruction could have begun (its list was free and what it waits for
/// done) and its begin, seconds: what the executor adds.
double overhead_per_task(const StepRecord& step);

}  // namespace pipesim
