#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "sim/lane_use.h"
#include "sim/task_dag.h"

namespace pipesim {

/// Tasks between devices that a task graph has once or many times: those of a communication plan, or the
/// statistics inside an operator.
struct TaskPattern {
  struct Task {
    TaskKey order;                      ///< decides between the pattern's tasks on a lane
    Nanoseconds duration = 0;           ///< above 0
    std::array<std::int32_t, 3> equal;  ///< what tasks that are alike have in common, too
    std::span<const LaneUse> lanes;
    std::span<const DeviceId> before;     ///< devices whose work it waits for
    std::span<const DeviceId> after;      ///< devices whose work waits for it
    std::span<const std::int32_t> waits;  ///< tasks of the pattern that it waits for
  };
  std::vector<Task> tasks;
};

/// Lanes that always have the same work at the same time; lane d is the compute lane of device d. Numbers of
/// classes ascend with their first lanes, and, in a pattern, with their first tasks.
struct LaneClasses {
  std::vector<std::int32_t> of_lane;
  std::vector<LaneId> first;                       ///< by class
  std::vector<std::vector<std::int32_t>> of_task;  ///< by pattern and task, from 0 in each pattern
};

/// The coarsest classes that colours lead to, refined until nothing changes (as in Cardon and Crochemore,
/// "Partitioning a graph in O(|A| log₂ |V|)", 1982). Lanes of different numbers in `at_first` are not alike.
/// Nothing where the devices `working` fall into more than `most` classes.
///
/// What is proven, by a look at each of the conditions once the colours stand. Tasks of a class, all in one
/// pattern, take as long, hold lanes of the same classes for as long (no two of one class for different
/// times), and wait for devices and tasks of the same classes. On lanes of a class the pattern has the same
/// classes of tasks for as long, one of each, in the same order, which is also that of the classes' first
/// tasks. Devices of a class are awaited by, and wait for, tasks of the same classes.
std::optional<LaneClasses> find_lane_classes(std::span<const std::int32_t> at_first,
                                             std::span<const TaskPattern> patterns,
                                             std::span<const DeviceId> working, std::size_t most);

}  // namespace pipesim
