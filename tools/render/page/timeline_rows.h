#pragma once

#include <cstddef>
#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "search/evaluator.h"
#include "sim/explain.h"

namespace pipesim {

/// Which of the two timelines of an execution a row belongs to; other plans have only one.
enum class RowSource : std::uint8_t { Only, Predicted, Measured };

/// A row of a drawn timeline: what one lane does.
struct TimelineRow {
  std::string owner;       ///< "node0.gpu3 (stage 1)": rows of one owner stand together
  std::string lane;        ///< "compute", "host", or a link's name
  bool computes = false;   ///< of a device's compute lane, or of its host
  std::int64_t alike = 1;  ///< devices that the owner stands for, itself included
  Nanoseconds busy = 0;    ///< in the whole iteration
  RowSource source = RowSource::Only;
  bool operator==(const TimelineRow&) const = default;
};

/// Why a task of a drawn timeline did not start earlier.
enum class DrawnCause : std::uint8_t {
  Nothing,   ///< it started at once
  Input,     ///< a task that it needs
  Lane,      ///< a task that held one of its lanes
  AfterStep  ///< a task that it does not need, but that ends the step of the schedule before it
};

struct DrawnTask {
  Nanoseconds begin = 0, duration = 0;
  TaskKind kind = TaskKind::Forward;
  std::int32_t name = 0;         ///< index into TimelineRows::names
  std::int32_t microbatch = -1;  ///< as TaskLabel::microbatch
  std::int64_t bytes = 0;        ///< that it moves
  std::int32_t waited_for = -1;  ///< a task; -1: none, or one that is not drawn
  DrawnCause cause = DrawnCause::Nothing;
  Nanoseconds queued = 0;    ///< how long it was ready and its lane was not free
  Nanoseconds critical = 0;  ///< what it accounts for on the critical path
  std::int32_t beside = -1;  ///< of an execution: the same task in the other timeline; -1: none
  bool operator==(const DrawnTask&) const = default;
};

/// A task in one of the rows.
struct DrawnBar {
  std::int32_t task = 0, row = 0;
  Nanoseconds hold = 0;
  bool operator==(const DrawnBar&) const = default;
};

/// The tasks that were simulated, ready to be drawn: tasks in order of their begin, then names.
/// Barriers, which take no time, are left out.
struct TimelineRows {
  std::vector<TimelineRow> rows;
  std::vector<std::string> names;  ///< without microbatches
  std::vector<DrawnTask> tasks;
  std::vector<DrawnBar> bars;  ///< in the order of tasks
  Nanoseconds end = 0;         ///< of the simulated part
  SteadyState steady;          ///< parts that come again
};

/// Returns the rows of what was simulated of the strategy, with labels. Rows without a task are left out.
/// `critical`: the critical path of the same timeline.
TimelineRows timeline_rows(const SimulatedPart& part, const BoundStrategy& strategy,
                           const CriticalPath& critical);

/// The number of tasks that a simulation of all devices and microbatches would have.
std::int64_t num_tasks_of_all(const SimulatedPart& part);

/// The object "timeline" of docs/reports.md: columns of numbers, times in nanoseconds.
nlohmann::ordered_json json_of(const TimelineRows& rows);

}  // namespace pipesim
