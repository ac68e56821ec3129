#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "search/search.h"
#include "tools/analysis/plans/plan_costs.h"

namespace pipesim {

/// Where the time of an iteration goes, as a device sees it. The parts add up to it.
enum class TimePart : std::uint8_t {
  Compute,    ///< a device computes, mean of all of them
  Uneven,     ///< the busiest device computes so much longer than the mean
  Transfers,  ///< even the busiest device idles, as far as the critical path communicates or waits for a link
  Results     ///< the rest of its idle time: it waits for what other devices compute
};
inline constexpr std::size_t kTimeParts = 4;
using TimeParts = std::array<Nanoseconds, kTimeParts>;  ///< by TimePart
TimeParts time_parts(const PlanReport& report);

/// A plan, and the parts of it that a reason mentions.
struct ReasonedPlan {
  std::string name;  ///< "data-parallel"
  const BoundStrategy& strategy;
  const PlanCosts& costs;
  const PlanOptions& options;
};

/// Operators of one kind that changed alike.
struct SplitChange {
  std::string operators;  ///< "embeddings"; "" of all that have not changed
  std::string from, to;   ///< "split by samples", "split by width"
  std::vector<OperatorId> members;
  /// A transfer counts for its first reader whose split changed; otherwise as in PlanCosts.
  OperatorCosts before, after;
  /// The parts of TimePart::Transfers, in both plans, in which these operators' communication is on the
  /// critical path.
  std::array<CommunicationTimes, 2> waiting{};
  /// Its share of the time that the plan gains (negative: loses): the compute that it saves per device, plus
  /// the difference of `waiting`. All shares together are the gain of the parts Compute and Transfers.
  Nanoseconds gain = 0;
};

/// Why one plan is faster, or slower, than another with the same samples: figures, and words. The words are
/// made from these figures alone.
struct PlanReason {
  std::string baseline;    ///< name of the plan before
  std::string infeasible;  ///< "", or why it does not fit
  bool same = false;       ///< both are the same plan; nothing below is told then
  bool detailed = true;    ///< false: times are all that is known of the two
  std::string whole;       ///< "" or what changed for all operators: "4 stages, 8 microbatches instead of 1"
  Nanoseconds before = 0, after = 0;  ///< an iteration
  std::int64_t devices = 0;
  std::array<TimeParts, 2> parts{};
  std::array<MovedBytes, 2> moved{};
  std::array<DeviceMemory, 2> memory{};  ///< of the fullest device
  std::vector<SplitChange> changes;  ///< the most gain first, then what has not changed, where that is some
};

/// `infeasible`: why the first plan does not fit, or "". The batches of the plans' graphs may differ if the
/// numbers of microbatches compensate for it.
PlanReason plan_reason(const OperatorGraph& graph, const ReasonedPlan& before, const ReasonedPlan& after,
                       const std::string& infeasible);

/// For a plan that is itself the best baseline.
PlanReason same_plan(const Baseline& baseline);

/// For a baseline that is too large for details.
PlanReason times_alone(const std::string& baseline, const Evaluation& before, Nanoseconds after);

}  // namespace pipesim
