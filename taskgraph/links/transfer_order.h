#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "sim/lane_use.h"

namespace pipesim {

/// A task of a transfer, as the simulator takes it: it holds lanes from its start, and its data are there
/// after `duration`.
struct TransferTask {
  std::vector<LaneUse> lanes;
  Nanoseconds duration = 0;
  std::vector<std::int32_t> after;  ///< earlier tasks of the same way; empty: ready at once
};

/// One way to carry out a transfer: its tasks in the order in which they would start. A task that waits waits
/// for tasks that do not wait themselves.
using TransferWay = std::vector<TransferTask>;

/// All ways of one transfer, at least one. In resharding a transfer is a unit task: a piece of a tensor for
/// the devices that want it. Its ways differ in who sends, and in how the piece spreads.
using Transfer = std::vector<TransferWay>;

/// Transfers one after the other, and a way for each.
struct TransferOrder {
  std::vector<std::int32_t> order;  ///< numbers of the transfers, the first first
  std::vector<std::int32_t> way;    ///< by transfer
  Nanoseconds makespan = 0;
  bool least = false;  ///< it is certain that no order, with any ways, has a smaller makespan
  bool operator==(const TransferOrder&) const = default;
};

/// When all transfers are done, if nothing else is on their lanes. All are ready at 0. This is the rule of
/// simulate(): tasks are taken in order, and each starts when all its lanes are free.
Nanoseconds makespan_of(std::span<const Transfer> transfers, const TransferOrder& order);

/// No order, with any ways, takes less: every lane must be held by all that needs it.
Nanoseconds least_makespan(std::span<const Transfer> transfers);

/// Balances senders' loads first: long transfers first, each takes the way that keeps the fullest of its
/// lanes emptiest. Then the next transfer is always one that can start first; of several, one whose lanes
/// have most left to carry.
TransferOrder order_greedily(std::span<const Transfer> transfers);

/// Depth-first search with bounds. Nothing when it has not ended after placing `most_steps` transfers.
std::optional<TransferOrder> order_exactly(std::span<const Transfer> transfers, std::int64_t most_steps);

/// Returns the greedy order if it takes at most `enough` or the least time. Else it returns the exact order
/// of a few transfers; of more, the best of many greedy orders with ways and ties changed at random, from a
/// fixed seed (Zhuang et al., "On Optimizing the Communication of Model Parallelism", section 3.2: load
/// balance and order of unit tasks, exactly or by randomised greedy search). Stops at makespans up to
/// `enough`. Takes about a millisecond at most for some tens of transfers.
TransferOrder order_transfers(std::span<const Transfer> transfers, Nanoseconds enough = 0);

}  // namespace pipesim
