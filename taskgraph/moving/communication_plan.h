#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <span>
#include <utility>
#include <vector>

#include "sim/lane_use.h"
#include "taskgraph/moving/communicators.h"
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

/// How long the bytes of a task move: the most that it holds a lane.
Nanoseconds longest_hold(std::span<const LaneUse> lanes);

/// Sums the holds of each lane; ascending by lane.
std::vector<LaneUse> added_up(std::span<const LaneUse> uses, std::size_t num_lanes);

/// One communication task of a plan, with its price rounded to nanoseconds. Its spans point into the plan.
struct CommunicationTask {
  Collective kind = Collective::Send;
  std::int32_t round = 0;
  std::int32_t turn = RedistributionStep::no_turn;
  std::int32_t piece = 0, pieces = 1;  ///< this task moves part number `piece` of its step's data
  std::int32_t step = 0;               ///< index of its step in the redistribution
  std::int32_t term = -1;              ///< the term whose data it takes; −1: all terms
  Nanoseconds duration = 0;
  Bytes size;  ///< of this piece
  std::span<const LaneUse> lanes;
  std::span<const DeviceId> group;
  std::span<const std::int32_t> after;  ///< earlier tasks of the same plan
};

/// The fields of a plan's tasks that expansion needs, as flat lists in the order of the tasks. A graph is
/// edited often, and CommunicationTask is wide.
struct PlanExpansion {
  struct Task {
    std::uint64_t key = 0;  ///< low word of its TaskKey, see task_keys.h
    Nanoseconds duration = 0;
    const LaneUse* lanes = nullptr;
    std::size_t num_lanes = 0;
  };
  /// A device provides data for a task: of one term, or (−1) of all terms.
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

/// All communication that brings a tensor, or a sum of terms, into one layout. It can be moved but not
/// copied, since the spans of its tasks point into it.
struct CommunicationPlan {
  CommunicationPlan() = default;
  CommunicationPlan(CommunicationPlan&&) = default;
  CommunicationPlan& operator=(CommunicationPlan&&) = default;
  CommunicationPlan(const CommunicationPlan&) = delete;
  CommunicationPlan& operator=(const CommunicationPlan&) = delete;
  ~CommunicationPlan() = default;

  [[nodiscard]] bool has_sends() const;
  [[nodiscard]] Bytes bytes() const;  ///< of memory
  /// Whether the device has a receive buffer, which holds its own part of the target, too.
  [[nodiscard]] bool receives(DeviceId device) const {
    const auto at = std::ranges::lower_bound(received, device, {}, &std::pair<DeviceId, Bytes>::first);
    return at != received.end() && at->first == device;
  }

  std::vector<CommunicationTask> tasks;
  PlanExpansion expansion;
  /// true: each term has its own redistribution; false: one redistribution of their sum
  bool term_by_term = false;
  bool compared = false;        ///< its redistributions were chosen by their times
  std::vector<LaneUse> loads;   ///< how long the tasks hold each lane, summed
  std::vector<DeviceId> local;  ///< devices that use data which they already hold
  std::vector<std::pair<DeviceId, Bytes>>
      received;                 ///< receive buffers: the target's pieces on devices that get data, ascending
  Communicators communicators;  ///< that its tasks need
  LayoutId target;

  // Storage of the tasks' spans, which pieces of a step share.
  std::vector<LaneUse> lane_uses;
  std::vector<DeviceId> groups;
  std::vector<std::int32_t> earlier;
};

/// The redistributions that the plan's tasks carry out, one for each term if `term_by_term`. Their steps say
/// which data move.
std::vector<Redistribution> redistributions_of(std::span<const LayoutId> terms, LayoutId target,
                                               std::int64_t element_bytes, bool term_by_term,
                                               const LayoutTable& layouts, CommunicationPrices& prices,
                                               StepContents contents = StepContents::List);

/// How members of a group get what each of them has a part of.
enum class GatherBy : std::uint8_t {
  AllGather,
  Broadcast  ///< as long as one broadcast of all takes: CostModel::plan_broadcast_gather
};

/// How collectives of a plan are done where there is a choice.
struct CollectiveForms {
  GatherBy gathers = GatherBy::AllGather;
  NodeRoute route = {};  ///< with nodes: that of all-to-alls between tokens and their experts
  CollectiveForms() = default;
  CollectiveForms(GatherBy g) : gathers(g) {}  // NOLINT(google-explicit-constructor): the only form of most
  CollectiveForms(GatherBy g, const NodeRoute& r) : gathers(g), route(r) {}
  bool operator==(const CollectiveForms&) const = default;
};

/// The time of a task, and its holds, which last no longer than the task.
const CollectiveTime& time_of(Collective kind, std::span<const DeviceId> group, Bytes size,
                              const CollectiveForms& forms, CommunicationPrices& prices);
LaneUse rounded(const LaneHold& hold, Nanoseconds duration);

/// `terms`: the distinct layouts whose sum is wanted; a single one for activations. If the redistribution of
/// the sum still needs plain sends, it is compared with moving each term on its own, and the cheaper is used.
/// Steps larger than `largest_piece` are cut into pieces. Every step moves `load` times the bytes of its
/// elements, and `forms` says how collectives are done; ways are chosen without regard to either.
CommunicationPlan plan_communication(std::span<const LayoutId> terms, LayoutId target,
                                     std::int64_t element_bytes, Bytes largest_piece,
                                     const LayoutTable& layouts, CommunicationPrices& prices, double load = 1,
                                     const CollectiveForms& forms = {});

/// Takes a group of devices, the longest_hold() of a collective among them, and how many such there are.
using CollectiveVisit =
    std::function<void(std::span<const DeviceId> group, Nanoseconds moving, std::int64_t times)>;

/// CommunicationPlan::loads of that plan, without making its tasks. Visits its tasks that are no messages.
std::vector<LaneUse> lane_loads(std::span<const LayoutId> terms, LayoutId target, std::int64_t element_bytes,
                                Bytes largest_piece, const LayoutTable& layouts, CommunicationPrices& prices,
                                const CollectiveForms& forms = {}, const CollectiveVisit& visit = {});

/// The plan that carries out the redistribution of a sum.
CommunicationPlan plan_of(const Redistribution& redistribution, LayoutId target, std::int64_t element_bytes,
                          Bytes largest_piece, const LayoutTable& layouts, CommunicationPrices& prices,
                          double load = 1, const CollectiveForms& forms = {});

/// The plan that plan_communication() uses when it moves each term on its own.
CommunicationPlan plan_terms(std::span<const LayoutId> terms, LayoutId target, std::int64_t element_bytes,
                             Bytes largest_piece, const LayoutTable& layouts, CommunicationPrices& prices,
                             double load = 1, const CollectiveForms& forms = {});

/// The time of the redistribution's steps, for a plan that is not term_by_term; see estimated_time().
Seconds estimated_time(const CommunicationPlan& plan, CommunicationPrices& prices);

// Other prices of the same communication. A plan that is priced again keeps its address, and so do the lists
// that its spans point into. Functions that return false may have changed some times.

/// Whether these lists name the same lanes, in the same order.
bool same_lanes(std::span<const LaneUse> a, std::span<const LaneUse> b);

/// Takes the times of a task that is otherwise the same. False where it holds other lanes.
bool take_times(PricedTask& task, const PricedTask& from);

/// Whether the plans have the same tasks, but for their times and lanes.
bool same_tasks(const CommunicationPlan& a, const CommunicationPlan& b);
/// Takes the times of a plan with the same tasks. False where the number of tasks or their lanes differ.
bool take_times(CommunicationPlan& plan, const CommunicationPlan& from);
/// Prices the plan's tasks anew. False where they would hold other lanes, but not where another way would be
/// chosen (CommunicationPlan::compared).
bool reprice(CommunicationPlan& plan, const CollectiveForms& forms, CommunicationPrices& prices);

}  // namespace pipesim
