#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "search/planners/stage_partition.h"

namespace pipesim {

/// A problem of stages whose costs were measured or computed elsewhere.
struct StageCosts {
  StageProblem problem;
  std::vector<std::pair<std::int64_t, std::int64_t>> submeshes;  ///< nodes, devices of each
};

/// {"L": layers, "D": devices, "B": microbatches, "submesh": [[nodes, devices of each], …], "entries":
/// [[first layer, last layer, submesh, config, seconds of a microbatch, most successors], …]}; "kind" and
/// "ncfg" may stand beside. An entry whose last number is below 0 does not fit by itself. InputError with
/// file and JSON pointer: what is none of this, and layers that no entry has.
StageCosts read_stage_costs(std::string_view text, const std::string& source);

}  // namespace pipesim
