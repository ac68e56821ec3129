#pragma once

#include "search/recipe_planner/measuring/mesh_costs.h"
#include "search/recipe_planner/measuring/part_on_mesh.h"

namespace pipesim {

/// What the part keeps until backward, by recomputation, and its weights. `gathered`: whether inputs that
/// were gathered are kept.
void measure_memory(const PartOnMesh& part, GatheredInputs gathered, PartCosts& costs);

}  // namespace pipesim
