#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>

#include "costmodel/collectives.h"
#include "costmodel/correction.h"
#include "models/operator.h"

namespace pipesim {

/// Tasks that are corrected alike: "forward", "backward-input", "backward-weight", "update", and the names of
/// collectives.
std::string correction_class(Pass pass);
std::string correction_class(Collective kind);

/// A task that was executed, and what the cost model said without corrections. Seconds.
struct ExecutedTask {
  std::string correction_class;
  double predicted = 0, measured = 0;
};

/// Fits each class on its own; up to about a third of its tasks may be outliers of any size. The factor is
/// the weighted median of the slopes between pairs of tasks (Theil–Sen; weights ∝ the difference of
/// predictions), the overhead the median of what then remains, where small tasks, which it matters to, count
/// more. Classes whose predictions span less than a factor of two, or have under eight tasks, and those that
/// would come out with a negative overhead get the median ratio alone. Tasks without a positive prediction
/// and measurement are skipped, classes without tasks left out. `runs`: that the tasks come from.
std::map<std::string, Correction> fit_corrections(std::span<const ExecutedTask> tasks, std::int64_t runs);

}  // namespace pipesim
