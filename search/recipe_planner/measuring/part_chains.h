#pragma once

#include "search/recipe_planner/measuring/mesh_costs.h"
#include "search/recipe_planner/measuring/part_on_mesh.h"

namespace pipesim {

/// The part's chains of passes and transfers (PartCosts, "Chains").
void measure_chains(const PartOnMesh& part, PartCosts& costs);

}  // namespace pipesim
