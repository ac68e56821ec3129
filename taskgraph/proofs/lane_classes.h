#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "sim/lane_use.h"
#include "sim/task_dag.h"

namespace pipesim {

/// A group of tasks that a task graph contains once or many times: the tasks of a communication plan, or the
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

/// Classes of lanes that always have the same work at the same time; lane d is the compute lane of device d.
/// Classes are numbered in the order of their first lanes; within a pattern, classes of tasks in the order of
/// their first tasks.
struct LaneClasses {
  std::vector<std::int32_t> of_lane;
  std::vector<LaneId> first;                       ///< by class
  std::vector<std::vector<std::int32_t>> of_task;  ///< by pattern and task, from 0 in each pattern
};

/// Finds classes by colour refinement: it splits classes until nothing changes (as in Cardon and Crochemore,
/// "Partitioning a graph in O(|A| log₂ |V|)", 1982). Lanes with different numbers in `at_first` are never
/// alike. Nothing when the devices `working` fall into more than `most` classes.
///
/// Each condition is then checked on the final classes. Tasks of a class are all in one pattern, take as
/// long, hold lanes of the same classes for as long (no two lanes of one class for different times), and wait
/// for devices and tasks of the same classes. Lanes of a class have, in each pattern, tasks of the same
/// classes for as long, one of each, in the same order, which is also the order of the classes' first tasks.
/// Devices of a class are awaited by, and wait for, tasks of the same classes.
std::optional<LaneClasses> find_lane_classes(std::span<const std::int32_t> at_first,
                                             std::span<const TaskPattern> patterns,
                                             std::span<const DeviceId> working, std::size_t most);

/// Whether classes meet these conditions with the patterns' present times. Which lanes may be alike
/// (`at_first`) is not looked at.
bool lanes_are_alike(const LaneClasses& classes, std::span<const TaskPattern> patterns);

}  // namespace pipesim
