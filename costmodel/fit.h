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

/// A task that was executed, and the cost model's time for it without corrections. Seconds.
struct ExecutedTask {
  std::string correction_class;
  double predicted = 0, measured = 0;
};

/// Fits each class on its own; up to about a third of its tasks may be outliers of any size. The factor is
/// the weighted median of the slopes between pairs of tasks (Theil–Sen; weights ∝ the difference of
/// predictions). The overhead is the median of the remainders, in which small tasks count more, since the
/// overhead matters to them. A class gets its median ratio alone when its predictions span less than a factor
/// of two, when it has fewer than eight tasks, or when the overhead would be negative. Tasks without a
/// positive prediction and measurement are skipped; classes without tasks are left out. `runs`: the number of
/// runs that the tasks come from.
std::map<std::string, Correction> fit_corrections(std::span<const ExecutedTask> tasks, std::int64_t runs);

}  // namespace pipesim
