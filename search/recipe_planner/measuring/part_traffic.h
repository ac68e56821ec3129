#pragma once

#include <vector>

#include "search/recipe_planner/measuring/part_on_mesh.h"

namespace pipesim {

/// How long transfers hold each lane of the topology.
struct LaneLoads {
  std::vector<Nanoseconds> each, once;  ///< of a microbatch, of an iteration
  std::vector<Nanoseconds> at_end;      ///< of these, what waits for the last microbatch's gradients
};

/// Of transfers in the part alone, and of gradients and weights that no other part uses.
LaneLoads lane_loads(const PartOnMesh& part, const StateSharding& sharding);

}  // namespace pipesim
