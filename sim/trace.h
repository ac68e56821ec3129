#pragma once

#include <cstddef>
#include <functional>
#include <ostream>
#include <string>
#include <utility>
#include <vector>

#include "sim/task_dag.h"
#include "sim/timeline.h"

namespace pipesim {

/// The names in a trace, in any UTF-8. A function that is not set leaves its text out, or shows the id
/// instead.
struct TraceLabels {
  std::function<std::string(LaneId)> process;  ///< lanes of the same process are shown together: a device
  std::function<std::string(LaneId)> thread;   ///< the lane within it: "compute", "link to gpu3"
  std::function<std::string(TaskId)> task;
  std::function<std::string(TaskId)> category;  ///< e.g. "forward"; viewers filter by it
  std::function<std::vector<std::pair<std::string, std::string>>(TaskId)>
      args;                                                  ///< shown when a task is selected
  std::function<bool(TaskId before, TaskId after)> is_flow;  ///< whether an arrow shows this edge: a transfer
};

/// Writes the timeline in Chrome's trace event format (JSON), which ui.perfetto.dev and chrome://tracing
/// open. Each task is a slice on each lane that it holds, as long as it holds it. Arrows go from the first
/// lane of a task to the first lane of its successor. Tasks without lanes are not shown. Times are
/// microseconds with three decimals, which is exact. Processes are numbered in the order of their first lane.
/// InputError when the stream fails.
void write_trace(std::ostream& out, const TaskDag& dag, const Timeline& timeline, const TraceLabels& labels);

/// One track (line) of a trace.
struct TraceTrack {
  std::string process, thread;
};
struct TraceSlice {
  std::size_t track = 0;
  std::string name, category;
  Nanoseconds start = 0, duration = 0;
};
/// Writes tracks and slices in the same format. Tracks of one process must be adjacent. InputError when the
/// stream fails.
void write_trace(std::ostream& out, const std::vector<TraceTrack>& tracks,
                 const std::vector<TraceSlice>& slices);

}  // namespace pipesim
