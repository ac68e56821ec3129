#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "search/alpa/stage_partition.h"

namespace pipesim {

/// A stage problem whose costs were measured or computed elsewhere.
struct StageCosts {
  StageProblem problem;
  std::vector<std::pair<std::int64_t, std::int64_t>> submeshes;  ///< nodes, devices of each
};

/// Reads {"L": layers, "D": devices, "B": microbatches, "submesh": [[nodes, devices of each], …], "entries":
/// [[first layer, last layer, submesh, config, seconds of a microbatch, most successors], …]}; "kind" and
/// "ncfg" are allowed too. An entry whose last number is below 0 does not fit even alone. InputError with
/// file and JSON pointer for any other content, and for layers that no entry has.
StageCosts read_stage_costs(std::string_view text, const std::string& source);

}  // namespace pipesim
