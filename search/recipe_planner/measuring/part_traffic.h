#pragma once

#include <map>
#include <utility>
#include <vector>

#include "search/recipe_planner/measuring/part_on_mesh.h"

namespace pipesim {

/// How long transfers hold lanes, by the numbers of the lanes, ascending; others are not held.
using HeldLanes = std::vector<std::pair<std::size_t, Nanoseconds>>;

/// Returns how long a microbatch's transfers in the part hold lanes.
HeldLanes held_by_transfers(const PartOnMesh& part);

/// Where a weight's copies and gradients are, each layout once: on one group of devices, or on several that
/// hold the same stage.
struct WeightPlaces {
  LayoutIds needed, gradients;  ///< of a frozen weight: gradients that it would have
};
/// It has the weights that the part is the first to use and that no other part uses.
using PlacesByWeight = std::map<TensorId, WeightPlaces>;
void add_weight_places(const PartOnMesh& part, PlacesByWeight& places);

/// How long lanes are held by reducing gradients once, of weights whose state stays whole and of those whose
/// state is divided, and by gathering the latter once. Weights that are small beside the others are left out.
struct HeldByWeights {
  HeldLanes whole, divided, gather;
  HeldLanes frozen;  ///< by gathering frozen weights for both passes of a microbatch, or for the only one
  HeldLanes frozen_once;  ///< by gathering them for forward alone
  HeldLanes summed;       ///< instead of `divided` under zero1, where Runtime::sums_whole says so
  HeldLanes broadcast;    ///< instead of `gather` where weights are gathered by broadcasts
  /// Compute that each device loses to these, at least, where they run beside it (Runtime::interference).
  struct Lost {
    Nanoseconds whole = 0, divided = 0, gather = 0, summed = 0;
  };
  Lost lost;
};
/// `sharding`: any that divides the state as these weights'.
HeldByWeights held_by_weights(const PlacesByWeight& places, const StateSharding& sharding,
                              MeshTables& tables);

}  // namespace pipesim
