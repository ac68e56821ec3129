#pragma once

#include <cstdint>
#include <vector>

#include "costmodel/calibration.h"
#include "executor/program/program.h"
#include "taskgraph/expansion/expanded_strategy.h"

namespace pipesim {

/// Which measurement the tasks of a program take their durations from.
struct TaskDurations {
  struct Key {
    CalibrationKey key;
    KernelWork work;    ///< of operators
    Estimate estimate;  ///< what the cost model says
  };
  /// What is timed as one: a transfer, an update, or all stages of a pass of one shard.
  struct Unit {
    std::size_t key = 0;  ///< index into keys
    DeviceId device;      ///< of transfers the first of the group
    std::vector<TaskId> tasks;
  };
  std::vector<Key> keys;  ///< distinct
  std::vector<Unit> units;
  std::vector<std::int32_t> unit_of_task;  ///< −1: a task of other processes, or a barrier
};

/// The name that devices have in keys: the topology's name, to measure them; or the calibration's name, to
/// look up its measurements.
enum class KeyPlace : std::uint8_t { Topology, Calibration };

/// `program` was compiled from `expanded`, which has labels.
TaskDurations task_durations(const ExpandedStrategy& expanded, const Program& program, KeyPlace place);

}  // namespace pipesim
