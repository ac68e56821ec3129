#pragma once

#include "search/recipe_planner/measuring/mesh_costs.h"
#include "search/recipe_planner/measuring/part_on_mesh.h"

namespace pipesim {

/// What the part keeps until backward, by recomputation, and its weights.
void measure_memory(const PartOnMesh& part, PartCosts& costs);

}  // namespace pipesim
