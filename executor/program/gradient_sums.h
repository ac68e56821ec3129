#pragma once

#include <map>
#include <set>
#include <span>
#include <utility>
#include <vector>

#include "executor/program/shard_views.h"
#include "executor/program/task_roles.h"

namespace pipesim {

/// Where gradients are reduced after each microbatch, a device adds up what it gets: after the last transfer
/// of a microbatch to it, or before the update where it makes a part itself, which may come later than the
/// transfers.
class GradientSums {
 public:
  /// `order`: the tasks in the order of dispatch, in which the calls below come.
  GradientSums(const ExpandedStrategy& expanded, const RoleTable& roles, std::span<const TaskId> order,
               ShardViews& views);
  /// `instruction`: of the wiring's transfer on the device.
  void after_transfer(std::size_t wiring, TaskId transfer, DeviceId device, Instruction& instruction);
  /// Adds up what is not in the sum yet.
  void before_update(TensorId weight, DeviceId device, Instruction& update);

 private:
  struct AddedUp {
    TaskId before;                        // the transfer that added up last
    std::set<std::int32_t> microbatches;  // that are in the sum
  };
  using WiringOnDevice = std::pair<std::size_t, DeviceId>;
  void add_up(std::size_t wiring, DeviceId device, std::vector<TaskId>& waits, MoveList& moves);

  const ExpandedStrategy& expanded_;
  ShardViews& views_;
  std::map<TensorId, std::vector<std::size_t>> wirings_;         // by weight
  std::map<WiringOnDevice, TaskId> last_syncs_;                  // in the order of dispatch
  std::map<WiringOnDevice, std::vector<TaskId>> earlier_syncs_;  // all but the last
  std::map<std::pair<TensorId, DeviceId>, AddedUp> added_up_;
};

}  // namespace pipesim
