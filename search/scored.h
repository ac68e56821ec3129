#pragma once

#include <cstddef>
#include <vector>

#include "search/evaluator.h"

namespace pipesim {

/// A plan in any form, such as a strategy, the numbers of its configs, or stages and their splits, and what
/// it costs.
template <typename T>
struct Scored {
  T plan;
  Evaluation evaluation;
  bool operator==(const Scored&) const = default;
};

/// A strategy by the numbers that a ConfigSpace gives the configs of its operators.
using ScoredConfigs = Scored<std::vector<std::size_t>>;

}  // namespace pipesim
