#include "executor/run/execution.h"

#include <algorithm>

namespace pipesim {

Timeline StepRecord::timeline(std::size_t num_tasks) const {
  Timeline timeline{std::vector<Nanoseconds>(num_tasks, 0), std::vector<Nanoseconds>(num_tasks, 0), makespan};
  for (const InstructionTime& t : times) {
    timeline.start[t.task.index()] = std::max(timeline.start[t.task.index()], t.start);
    timeline.end[t.task.index()] = std::max(timeline.end[t.task.index()], t.end);
  }
  return timeline;
}

}  // namespace pipesim
