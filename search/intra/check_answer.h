#pragma once

#include <optional>
#include <string>

#include "search/intra/instance.h"

namespace pipesim {

/// What an answer costs, and what is wrong with it. Shares no code with the solver.
struct CheckedAnswer {
  WideCost cost = 0;           ///< of nodes and edges; without those that forbid
  std::int64_t most_used = 0;  ///< the largest sum of usages at a time
  std::int64_t most_used_at = 0;
  std::string broken;  ///< the first rule that it breaks, in words; empty: it breaks none

  [[nodiscard]] bool feasible() const { return broken.empty(); }
};

/// `answer` has a strategy for each node (else InternalError).
CheckedAnswer check_answer(const IntraInstance& instance, const IntraAnswer& answer);

}  // namespace pipesim
