#include "tools/cli/searching/progress_line.h"

namespace pipesim {

ProgressLine::ProgressLine(const Streams& streams, const SearchBudget& budget,
                           std::optional<Nanoseconds> lower_bound)
    : line_(streams), budget_(budget), lower_bound_(lower_bound) {}

void ProgressLine::note(const SearchProgress& progress) {
  if (line_.due()) line_.show(progress_of(progress, budget_, lower_bound_));
}

}  // namespace pipesim
