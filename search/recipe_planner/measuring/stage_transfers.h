#pragma once

#include <cstdint>

#include "search/recipe_planner/measuring/model_parts.h"

namespace pipesim {

class MeshTables;

/// How long the outputs of a stage are under way to a neighbouring group of a pipeline. If no device has made
/// its outputs before a moment, no device of the other group has all of its part before so much later.
struct StageTransfer {
  Nanoseconds forward = 0;   ///< activations
  Nanoseconds backward = 0;  ///< their gradients
};
void lower(StageTransfer& least, const StageTransfer& other);

/// Measures transfers between these groups of the tables' mesh, whichever of the two has the stage in front.
/// The result is the least over all layers between which a pipeline may be cut. What the devices of a group
/// exchange among themselves before they send does not count.
StageTransfer measure_stage_transfer(const ModelParts& parts, std::int64_t group, std::int64_t other,
                                     MeshTables& tables);

}  // namespace pipesim
