#pragma once

#include <vector>

#include "search/search.h"

namespace pipesim {

/// The best of a candidate set, by depth-first branch and bound.
///
/// Operators get configs from the loss back to the data, a block of a chain at a time (see OperatorBlocks).
/// Everything downstream of the last block is then settled, with its gradients and most weight updates. The
/// part upstream is bounded by a table made beforehand (see UpstreamTable). Joint configs of a block are
/// tried in the order of their bounds (see PartialGraph); those that can't beat the best so far are skipped.
/// A strategy's time is always the evaluator's; one that does not fit into memory never becomes best. Graphs
/// whose blocks have too many joint configs are searched operator by operator without a table, which is
/// feasible for tiny graphs only.
///
/// `starts` may lie outside the set; the best of them that fits is the first one to beat. `proven`: the whole
/// tree was covered, so no strategy of the set is better than `best` (or, without one, none fits). Otherwise
/// the budget ran out or `progress` returned false. Proposals count partial strategies bounded and whole ones
/// evaluated; each takes at least as much work as a proposal of mcmc(). Runs on one thread; if the budget
/// limits seconds, the outcome depends on them, otherwise on nothing but the arguments. Only for one
/// microbatch without recompute, because the bounds of parts cover neither.
///
/// Device symmetry is not used to skip strategies. Candidates take their devices in ascending order, so a
/// permutation of equal devices leads out of the set: n/2 on devices 0, 1 becomes n/2 on 1, 0. The set holds
/// each unordered list of devices only once. And as soon as one of several equivalent strategies is the best,
/// the bound that they share excludes the others.
SearchOutcome exhaustive(const OperatorGraph& graph, const CostModel& costs, const PlanOptions& options,
                         const CandidateSet& candidates, const std::vector<SearchStart>& starts,
                         const SearchBudget& budget, const ProgressCallback& progress);

}  // namespace pipesim
