#include "executor/program/gradient_sums.h"

#include <algorithm>

namespace pipesim {

GradientSums::GradientSums(const ExpandedStrategy& expanded, const RoleTable& roles,
                           std::span<const TaskId> order, ShardViews& views)
    : expanded_(expanded), views_(views) {
  if (!expanded.contents().options().state_sharding.each_microbatch()) return;
  for (std::size_t w = 0; w < expanded.wirings().size(); ++w) {
    const Wiring& wiring = expanded.wirings()[w];
    if (wiring.kind == TaskKind::GradientSync && wiring.microbatch >= 0) wirings_[wiring.tensor].push_back(w);
  }
  for (const TaskId task : order) {
    const TaskRole& role = roles[task];
    if (role.kind != TaskKind::GradientSync || expanded.wirings()[role.wiring].microbatch < 0) continue;
    const std::vector<DeviceId>& local = expanded.wirings()[role.wiring].plan->local;
    for (const DeviceId d : role.devices) {
      if (!std::ranges::binary_search(local, d)) last_syncs_[{role.wiring, d}] = task;
    }
  }
}

void GradientSums::after_transfer(std::size_t wiring, TaskId transfer, DeviceId device,
                                  Instruction& instruction) {
  const auto last = last_syncs_.find({wiring, device});
  if (last == last_syncs_.end()) return;
  if (last->second == transfer) {
    add_up(wiring, device, instruction.waits, instruction.after);
    added_up_[{expanded_.wirings()[wiring].tensor, device}].before = transfer;
  } else {
    earlier_syncs_[{wiring, device}].push_back(transfer);
  }
}

void GradientSums::before_update(TensorId weight, DeviceId device, Instruction& update) {
  const auto wirings = wirings_.find(weight);
  if (wirings == wirings_.end()) return;
  for (const std::size_t w : wirings->second) {
    if (!added_up_[{weight, device}].microbatches.contains(expanded_.wirings()[w].microbatch))
      add_up(w, device, update.waits, update.before);
  }
}

// The device got all of the microbatch's gradients that it needs.
void GradientSums::add_up(std::size_t wiring, DeviceId device, std::vector<TaskId>& waits, MoveList& moves) {
  const auto [weight, microbatch] =
      std::pair(expanded_.wirings()[wiring].tensor, expanded_.wirings()[wiring].microbatch);
  AddedUp& added = added_up_[{weight, device}];
  const std::vector<TaskId>& earlier = earlier_syncs_[{wiring, device}];
  waits.insert(waits.end(), earlier.begin(), earlier.end());
  if (added.before.valid()) waits.push_back(added.before);
  for (const ShardViews::GradientPiece& piece : views_.gradient_pieces(weight, device, microbatch)) {
    moves.append(piece.got.moves);
    moves.moves.push_back({piece.got.view, piece.sum, piece.sum.box, !added.microbatches.empty()});
  }
  added.microbatches.insert(microbatch);
}

}  // namespace pipesim
