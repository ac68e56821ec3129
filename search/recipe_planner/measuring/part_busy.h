#pragma once

#include "search/recipe_planner/measuring/mesh_costs.h"
#include "search/recipe_planner/measuring/part_on_mesh.h"

namespace pipesim {

/// How long devices are busy, and their hosts (PartCosts, "Busy" and "Host"): by the passes alone, which is
/// known at once.
void measure_busy(const PartOnMesh& part, PartCosts& costs);

}  // namespace pipesim
