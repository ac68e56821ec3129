#include "executor/program/gradient_sums.h"

#include <algorithm>

namespace pipesim {

GradientSums::GradientSums(const ExpandedStrategy& expanded, const RoleTable& roles,
                           std::span<const TaskId> order, ShardViews& views)
    : expanded_(expanded), views_(views) {
  if (!expanded.contents().options().state_sharding.each_microbatch()) return;
  std::map<std::pair<OperatorId, std::int32_t>, std::vector<std::size_t>> made_by;  // in which microbatch
  for (std::size_t w = 0; w < expanded.wirings().size(); ++w) {
    const Wiring& wiring = expanded.wirings()[w];
    if (wiring.kind != TaskKind::GradientSync || wiring.microbatch < 0) continue;
    for (const UseRef source : wiring.sources) {
      std::vector<std::size_t>& wirings = made_by[{source.op, wiring.microbatch}];
      if (wirings.empty() || wirings.back() != w) wirings.push_back(w);
    }
  }
  const auto makes_gradients = [&](const TaskRole& role) {
    if (role.kind != TaskKind::BackwardInput && role.kind != TaskKind::BackwardWeight) return false;
    const bool apart = expanded.tasks_of(role.op, role.microbatch).backward_weight.valid();
    return apart == (role.kind == TaskKind::BackwardWeight);
  };
  for (const TaskId task : order) {
    const TaskRole& role = roles[task];
    if (role.kind == TaskKind::GradientSync && expanded.wirings()[role.wiring].microbatch >= 0) {
      for (const DeviceId d : role.devices) tasks_[{role.wiring, d}].push_back(task);
    } else if (makes_gradients(role)) {
      const auto made = made_by.find({role.op, role.microbatch});
      if (made == made_by.end()) continue;
      const DeviceId device = role.devices.front();
      for (const std::size_t w : made->second) {
        // Others send what they make.
        if (std::ranges::binary_search(expanded.wirings()[w].plan->local, device))
          tasks_[{w, device}].push_back(task);
      }
    }
  }
  for (const auto& [where, tasks] : tasks_) completes_[{tasks.back(), where.second}].push_back(where.first);
}

void GradientSums::after(TaskId task, DeviceId device, Instruction& instruction) {
  const auto complete = completes_.find({task, device});
  if (complete == completes_.end()) return;
  for (const std::size_t wiring : complete->second) add_up(wiring, task, device, instruction);
}

void GradientSums::before_update(TensorId weight, DeviceId device, Instruction& update) const {
  const auto added = added_up_.find({weight, device});
  if (added != added_up_.end()) update.waits.push_back(added->second.last);
}

// The device got, and made, all of the microbatch's gradients that it needs.
void GradientSums::add_up(std::size_t wiring, TaskId task, DeviceId device, Instruction& instruction) {
  const TensorId weight = expanded_.wirings()[wiring].tensor;
  AddedUp& added = added_up_[{weight, device}];
  const std::vector<TaskId>& tasks = tasks_[{wiring, device}];
  instruction.waits.insert(instruction.waits.end(), tasks.begin(), tasks.end() - 1);
  if (added.last.valid() && added.last != task) instruction.waits.push_back(added.last);
  const std::int32_t microbatch = expanded_.wirings()[wiring].microbatch;
  for (const ShardViews::GradientPiece& piece : views_.gradient_pieces(weight, device, microbatch)) {
    instruction.after.append(piece.got.moves);
    instruction.after.moves.push_back({piece.got.view, piece.sum, piece.sum.box, added.any});
  }
  added = {task, true};
}

}  // namespace pipesim
