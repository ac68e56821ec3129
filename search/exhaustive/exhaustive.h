#pragma once

#include <vector>

#include "search/search.h"

namespace pipesim {

/// The best of a candidate set, by depth-first branch and bound.
///
/// Operators are given configs from the loss back to the data, a block of a chain at a time (see
/// OperatorBlocks): then everything downstream of the last block is settled, with its gradients and most
/// weight updates, and what lies upstream is bounded by a table made beforehand (see UpstreamTable). Joint
/// configs of a block are tried in the order of their bounds (see PartialGraph), those that can't beat the
/// best so far not at all. A strategy's time is always the evaluator's; one that does not fit into memory
/// never becomes best. Graphs whose blocks have too many joint configs are searched operator by operator
/// without a table, which only tiny ones survive.
///
/// `starts` may lie outside the set; the best of them that fits is the first to beat. `proven`: the whole
/// tree was covered, so no strategy of the set is better than `best` (or, without one, none fits). Otherwise
/// the budget ran out or `progress` returned false. Proposals: partial strategies bounded and whole ones
/// evaluated; each is at least as much work as a proposal of mcmc(). One thread; the outcome depends on the
/// budget's seconds alone, if it has any. One microbatch, and nothing run again: bounds of parts know nothing
/// of either.
///
/// Device symmetry is not used to leave strategies out. Candidates take their devices in ascending order, so
/// a permutation of equal devices leads out of the set: n/2 on devices 0, 1 becomes n/2 on 1, 0. It is the
/// set that holds each unordered list of devices once; and a bound that equivalent strategies share leaves
/// all of them out as soon as one of them is the best.
SearchOutcome exhaustive(const OperatorGraph& graph, const CostModel& costs, const PlanOptions& options,
                         const CandidateSet& candidates, const std::vector<SearchStart>& starts,
                         const SearchBudget& budget, const ProgressCallback& progress);

}  // namespace pipesim
