#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "costmodel/constants/cluster_constants.h"
#include "tools/analysis/accuracy/tables/measured_run.h"

namespace pipesim {

/// A run that would tell much about the constants.
struct NextRun {
  ExpressedRun run;
  std::string name;
  Seconds predicted;
  PredictionInterval interval;
};

/// The `count` runs that tell most. They are chosen among the rows of a table that have no time, or, where
/// there are none, among runs like the measured ones with another tp, pp or microbatch. Runs that do not fit
/// into memory are left out.
std::vector<NextRun> next_runs(const std::vector<MeasuredRun>& table, const ClusterConstants& constants,
                               std::size_t count);

}  // namespace pipesim
