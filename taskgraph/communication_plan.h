#pragma once

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "sim/lane_use.h"
#include "taskgraph/redistribution.h"

namespace pipesim {

/// One communication task, priced and rounded: what expansion turns into a task of the graph.
struct CommunicationTask {
  Collective kind = Collective::Send;
  std::int32_t round = 0;
  std::int32_t piece = 0, pieces = 1;  ///< part number `piece` of what its step moves
  std::int32_t step = 0;               ///< of its redistribution
  std::int32_t term = -1;              ///< takes data of this term only; −1: of all
  Nanoseconds duration = 0;
  Bytes size;  ///< of this piece
  std::vector<LaneUse> lanes;
  std::vector<DeviceId> group;
  std::vector<std::int32_t> after;  ///< earlier tasks of the same plan
};

/// Adds up what is held of each lane.
std::vector<LaneUse> added_up(std::vector<LaneUse> uses);

/// Prices one collective and rounds it to nanoseconds.
CommunicationTask priced_task(Collective kind, std::vector<DeviceId> group, Bytes size,
                              CommunicationPrices& prices);

/// All communication that brings a tensor (or a sum of terms) into one layout.
struct CommunicationPlan {
  std::vector<CommunicationTask> tasks;
  bool term_by_term = false;    ///< every term has a redistribution of its own; else one of their sum
  std::vector<LaneUse> loads;   ///< what the tasks hold each lane, added up
  std::vector<DeviceId> local;  ///< devices that use what they hold
  std::vector<std::pair<DeviceId, Bytes>>
      received;  ///< receive buffers: the target's pieces on devices that get data
  LayoutId target;
};

/// The redistributions that the plan's tasks belong to, one for each term if `term_by_term`. Their steps say
/// what moves.
std::vector<Redistribution> redistributions_of(std::span<const LayoutId> terms, LayoutId target,
                                               std::int64_t element_bytes, bool term_by_term,
                                               const LayoutTable& layouts, CommunicationPrices& prices);

/// `terms`: layouts whose sum is wanted, distinct (a single one for activations). If the sum still needs
/// plain sends, it is compared with each term on its own and the cheaper is taken. Steps larger than
/// `largest_piece` are cut.
CommunicationPlan plan_communication(std::span<const LayoutId> terms, LayoutId target,
                                     std::int64_t element_bytes, Bytes largest_piece, LayoutTable& layouts,
                                     CommunicationPrices& prices);

}  // namespace pipesim
