#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "search/planners/planner.h"

namespace pipesim {

struct AutoOptions {
  SearchBudget budget;
  std::uint64_t seed = 1;
  std::size_t chains = 8;  ///< of searches over splits
  int threads = 1;
  std::string checkpoint;                                ///< file to write; "": none
  double checkpoint_every = 3;                           ///< seconds between two
  std::string resume;                                    ///< file to go on from; "": none
  bool seed_is_asked = false, chains_are_asked = false;  ///< then the file must have the same
  /// Samples of a microbatch on each copy of a pipeline, of which DAPPLE is asked as well.
  std::optional<std::int64_t> copy_microbatch;
};

/// Asks baselines and all planners for the model with the microbatches of the request, and with more and
/// fewer of them for the same samples; then goes on from what they found with searches over splits
/// (search/mcmc) and over everything (search/joint). The plan is no worse than any of theirs.
///
/// With a budget in proposals alone the plan depends on the seed and the chains, never on the threads. With
/// the thread's deadline (sim/base/deadline.h) each part has a share of the time. The request needs an
/// observer. InputError where no algorithm found a plan.
PlannedPipeline search_auto(const PlanRequest& request, const AutoOptions& options);

}  // namespace pipesim
