#pragma once

#include "search/mcmc.h"

namespace pipesim {
SearchOutcome exhaustive(const OperatorGraph& graph, const CostModel& costs, const PlanOptions& options,
                         const CandidateSet& candidates, const std::vector<SearchStart>& starts,
                         const SearchBudget& budget, const ProgressCallback& progress);
}  // namespace pipesim
