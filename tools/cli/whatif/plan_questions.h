#pragma once

#include <optional>

#include "search/what_if/goodput.h"
#include "tools/cli/base/streams.h"
#include "tools/cli/whatif/run_points.h"

namespace pipesim {

/// What a command line asks of a single plan.
struct PlanQuestions {
  bool sensitivity = false;
  std::optional<NoisyTimes> noise;
  std::optional<Failures> failures;
  int threads = 1;
  bool json = false;
  [[nodiscard]] bool any() const { return sensitivity || noise || failures; }
};

/// Answers them, as text or as one JSON object.
void answer(const PlanQuestions& questions, const Subject& subject, Streams& streams);

}  // namespace pipesim
