#pragma once

#include <optional>
#include <string>
#include <vector>

#include "search/auto/algorithms.h"
#include "search/search.h"
#include "tools/analysis/inputs/model_run.h"

namespace pipesim {

/// Suggestions for plans that do not fit or are slow: options that the run does not use yet, each in a few
/// words, such as "--recompute full: data-parallel fits". Their effect was calculated where a few scores
/// suffice.
///
/// `nearest`: the baseline that is nearest to fitting; it does not fit. `run`: the model and its batch as the
/// command line gave them. `options`: the run's. `algorithm`: the one that found nothing, nullptr
/// without a search. The evaluator's timeline can't be used afterwards.
std::vector<std::string> hints_to_fit(Evaluator& evaluator, const Baseline& nearest, const ModelRun& run,
                                      const Algorithm* algorithm);
/// The same for another plan that does not fit. `by_recipe`: its options are parts of a recipe.
std::vector<std::string> hints_to_fit(Evaluator& evaluator, const Strategy& plan, const Algorithm* algorithm,
                                      bool by_recipe = false);
/// "\n  try --recompute full: …" for each, or "".
std::string hints_text(const std::vector<std::string>& hints);

/// "so at most 11 % faster is possible", "no plan is faster".
std::string room_above(Nanoseconds bound, Nanoseconds time);
/// What to try where a plan takes several times as long as the lower bound: "40 times above the lower bound:
/// …"; else "". `algorithm` found it, or nullptr.
std::string far_above(Nanoseconds bound, Nanoseconds time, const Algorithm* algorithm);

}  // namespace pipesim
