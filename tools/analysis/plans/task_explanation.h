#pragma once

#include <string>
#include <vector>

#include "search/evaluator.h"
#include "sim/explain.h"

namespace pipesim {

/// A task of a chain in which each task delayed the one before it.
struct HeldTask {
  TaskId task;
  Explanation why;          ///< why it started when it did; names the next of the chain
  bool after_step = false;  ///< what held it is not the cause itself: a step of the schedule ended in between
  Nanoseconds accounts = 0;  ///< from its start until the start of the task that it held; 0 of the first
};

/// Why a task of a simulated plan started when it did.
struct TaskExplanation {
  std::string which;            ///< what was asked for
  std::vector<TaskId> matches;  ///< tasks with this text in their names, those that end last first
                                ///< (one for an id, or where the text is a whole name)
  std::vector<HeldTask> chain;  ///< from the first match back to the start of the iteration
  Nanoseconds compute = 0, communication = 0;  ///< what the chain accounts for: together the task's start
};

/// Explains a task of the strategy. `part`: all tasks of it, with labels. `which` is a task id, or part of a
/// name ("fc1 forward on node0.gpu0", see TaskNames). Whole names go before whole words, and those before
/// parts of words; where several tasks match, the last one to end is explained. InputError when none does.
TaskExplanation explain_task(const SimulatedPart& part, const BoundStrategy& strategy,
                             const std::string& which);

}  // namespace pipesim
