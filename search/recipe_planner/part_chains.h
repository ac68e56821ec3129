#pragma once

#include "search/recipe_planner/mesh_costs.h"
#include "search/recipe_planner/part_on_mesh.h"

namespace pipesim {

/// The part's chains of passes and transfers, and how long devices are busy (PartCosts, "Chains" and "Busy").
void measure_chains(const PartOnMesh& part, PartCosts& costs);

}  // namespace pipesim
