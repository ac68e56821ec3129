#pragma once

#include <vector>

#include "sim/base/units.h"

namespace pipesim {

/// When each task of a TaskDag ran, by task id. Reports, memory use, traces and explanations are functions of
/// it, whether it was simulated or measured.
struct Timeline {
  std::vector<Nanoseconds> start;
  std::vector<Nanoseconds> end;
  Nanoseconds makespan = 0;  ///< the largest end; 0 without tasks
  bool operator==(const Timeline&) const = default;
};

}  // namespace pipesim
