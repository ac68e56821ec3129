#pragma once

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "sim/lane_use.h"
#include "taskgraph/moving/redistribution.h"

namespace pipesim {

/// A collective with its price, rounded to nanoseconds.
struct PricedTask {
  Collective kind = Collective::Send;
  Nanoseconds duration = 0;
  Bytes size;
  std::vector<LaneUse> lanes;
  std::vector<DeviceId> group;
};
PricedTask priced_task(Collective kind, std::vector<DeviceId> group, Bytes size, CommunicationPrices& prices);

/// Adds up what is held of each lane; ascending.
std::vector<LaneUse> added_up(std::span<const LaneUse> uses, std::size_t num_lanes);

/// One communication task of a plan, priced and rounded. The spans lie in the plan.
struct CommunicationTask {
  Collective kind = Collective::Send;
  std::int32_t round = 0;
  std::int32_t piece = 0, pieces = 1;  ///< part number `piece` of what its step moves
  std::int32_t step = 0;               ///< of its redistribution
  std::int32_t term = -1;              ///< takes data of this term only; −1: of all
  Nanoseconds duration = 0;
  Bytes size;  ///< of this piece
  std::span<const LaneUse> lanes;
  std::span<const DeviceId> group;
  std::span<const std::int32_t> after;  ///< earlier tasks of the same plan
};

/// What expansion makes of a plan's tasks, in flat lists in the order of the tasks: a graph is edited often,
/// and the tasks themselves are wide.
struct PlanExpansion {
  struct Task {
    std::uint64_t key = 0;  ///< low word of its TaskKey, see task_keys.h
    Nanoseconds duration = 0;
    const LaneUse* lanes = nullptr;
    std::size_t num_lanes = 0;
  };
  /// A device hands data to a task, of one term or (−1) of all.
  struct Contribution {
    std::int32_t task = 0;
    DeviceId device;
    std::int32_t term = -1;
  };
  /// A device gets data from a task.
  struct Arrival {
    std::int32_t task = 0;
    DeviceId device;
  };
  /// One task waits for another.
  struct Wait {
    std::int32_t before = 0, after = 0;
  };
  std::vector<Task> tasks;
  std::vector<Contribution> contributions;
  std::vector<Arrival> arrivals;
  std::vector<Wait> waits;
};

/// All communication that brings a tensor (or a sum of terms) into one layout. Its tasks are moved with it,
/// never copied.
struct CommunicationPlan {
  CommunicationPlan() = default;
  CommunicationPlan(CommunicationPlan&&) = default;
  CommunicationPlan& operator=(CommunicationPlan&&) = default;
  CommunicationPlan(const CommunicationPlan&) = delete;
  CommunicationPlan& operator=(const CommunicationPlan&) = delete;
  ~CommunicationPlan() = default;

  [[nodiscard]] bool has_sends() const;
  [[nodiscard]] Bytes bytes() const;  ///< of memory

  std::vector<CommunicationTask> tasks;
  PlanExpansion expansion;
  bool term_by_term = false;    ///< every term has a redistribution of its own; else one of their sum
  std::vector<LaneUse> loads;   ///< what the tasks hold each lane, added up
  std::vector<DeviceId> local;  ///< devices that use what they hold
  std::vector<std::pair<DeviceId, Bytes>>
      received;  ///< receive buffers: the target's pieces on devices that get data
  LayoutId target;

  // What the tasks' spans show.
  std::vector<LaneUse> lane_uses;
  std::vector<DeviceId> groups;
  std::vector<std::int32_t> earlier;
};

/// The redistributions that the plan's tasks belong to, one for each term if `term_by_term`. Their steps say
/// what moves.
std::vector<Redistribution> redistributions_of(std::span<const LayoutId> terms, LayoutId target,
                                               std::int64_t element_bytes, bool term_by_term,
                                               const LayoutTable& layouts, CommunicationPrices& prices,
                                               StepContents contents = StepContents::List);

/// `terms`: layouts whose sum is wanted, distinct (a single one for activations). If the sum still needs
/// plain sends, it is compared with each term on its own and the cheaper is taken. Steps larger than
/// `largest_piece` are cut.
CommunicationPlan plan_communication(std::span<const LayoutId> terms, LayoutId target,
                                     std::int64_t element_bytes, Bytes largest_piece,
                                     const LayoutTable& layouts, CommunicationPrices& prices);

/// The plan of a sum's redistribution.
CommunicationPlan plan_of(const Redistribution& redistribution, LayoutId target, std::int64_t element_bytes,
                          Bytes largest_piece, const LayoutTable& layouts, CommunicationPrices& prices);

/// What plan_communication() takes when it takes each term on its own.
CommunicationPlan plan_terms(std::span<const LayoutId> terms, LayoutId target, std::int64_t element_bytes,
                             Bytes largest_piece, const LayoutTable& layouts, CommunicationPrices& prices);

/// The time of the redistribution's steps, for a plan that is not term_by_term; see estimated_time().
Seconds estimated_time(const CommunicationPlan& plan, CommunicationPrices& prices);

}  // namespace pipesim
