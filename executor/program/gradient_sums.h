#pragma once

#include <map>
#include <span>
#include <utility>
#include <vector>

#include "executor/program/shard_views.h"
#include "executor/program/task_roles.h"

namespace pipesim {

/// Where gradients are reduced after each microbatch, a device adds up its part of each as soon as it is
/// complete: after the last transfer to it, or after the pass that makes what the device itself adds.
class GradientSums {
 public:
  /// `order`: the tasks in the order of dispatch, in which the calls below come.
  GradientSums(const ExpandedStrategy& expanded, const RoleTable& roles, std::span<const TaskId> order,
               ShardViews& views);
  /// Lets the task's instruction on the device add up the gradients that are complete after it.
  void after(TaskId task, DeviceId device, Instruction& instruction);
  /// Makes the update wait for the sum.
  void before_update(TensorId weight, DeviceId device, Instruction& update) const;

 private:
  struct AddedUp {
    TaskId last;       // that added up
    bool any = false;  // microbatches are in the sum
  };
  using WiringOnDevice = std::pair<std::size_t, DeviceId>;
  void add_up(std::size_t wiring, TaskId task, DeviceId device, Instruction& instruction);

  const ExpandedStrategy& expanded_;
  ShardViews& views_;
  std::map<WiringOnDevice, std::vector<TaskId>> tasks_;  // that a part comes from, in the order of dispatch
  std::map<std::pair<TaskId, DeviceId>, std::vector<std::size_t>> completes_;  // wirings
  std::map<std::pair<TensorId, DeviceId>, AddedUp> added_up_;
};

}  // namespace pipesim
