#pragma once

#include <span>
#include <string>
#include <vector>

#include "search/evaluator.h"

namespace pipesim {

/// By task, the devices that communicate in it, in the builder's order; empty for other tasks. Where devices
/// stand for others, `Real` ones are those of one of the tasks that the task stands for. `part` must be of
/// the strategy and have labels. The result refers to both.
enum class GroupMembers : std::uint8_t { Simulated, Real };
std::vector<std::span<const DeviceId>> groups_of_tasks(const SimulatedPart& part,
                                                       const BoundStrategy& strategy, GroupMembers members);

/// "gpu0", "gpu0 to gpu3" of devices that follow each other, "gpu0, gpu4, gpu8", and of more than four others
/// "gpu0, gpu4, … gpu28".
std::string devices_in_words(std::span<const DeviceId> devices, const Topology& topology);

/// Names of the tasks that were simulated of a strategy, with labels: what describe() says, and on which
/// devices. Refers to the strategy's contents.
class TaskNames {
 public:
  TaskNames(const SimulatedPart& part, const BoundStrategy& strategy);
  /// "conv1 forward of microbatch 2 on gpu0", "conv1.out from gpu0 to gpu1", "all-reduce of gradient of
  /// conv1.weight over 4 devices, gpu0 to gpu3".
  [[nodiscard]] std::string operator()(TaskId task) const;
  /// "conv1 forward on gpu0".
  [[nodiscard]] std::string without_microbatch(TaskId task) const;

 private:
  [[nodiscard]] std::string name(TaskId task, TaskLabel label) const;

  SimulatedPart part_;
  std::vector<std::span<const DeviceId>> groups_;
};

}  // namespace pipesim
