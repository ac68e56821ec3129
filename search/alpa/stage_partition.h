#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "sim/base/units.h"

namespace pipesim {

/// One way to run some consecutive layers as a stage.
struct StageOption {
  std::int32_t first = 0, last = 0;  ///< layers, both in the stage
  std::int32_t submesh = 0, config = 0;
  std::int64_t devices = 1;
  Seconds time;  ///< of one microbatch, forward and backward
  /// The number of stages behind it for which memory suffices. A stage keeps one microbatch for each of them,
  /// and one of its own.
  std::int64_t most_successors = 0;
};

/// Layers to be cut into stages.
struct StageProblem {
  std::int32_t layers = 0;
  std::int64_t devices = 0;  ///< all are used
  std::int64_t microbatches = 1;
  std::vector<StageOption> options;
};

struct StagePartition {
  Seconds total;                    ///< Σ of the stages' times + (microbatches − 1) · the longest
  std::vector<std::size_t> stages;  ///< numbers of options, in the order of the pipeline
};

/// The best of all partitions, by Alpa's outer dynamic program (Zheng et al., OSDI 2022, section 5.2,
/// equations 2 to 4). The smallest sum of the stages' times, given a longest stage of at most t, falls as t
/// grows. So most values of t can be excluded without solving for them; the first value with a solution is
/// found by bisection. Nothing when no partition uses exactly the devices and keeps to memory. InternalError
/// for options outside the layers, times below 0 and counts below 1.
std::optional<StagePartition> partition_stages(const StageProblem& problem);

}  // namespace pipesim
