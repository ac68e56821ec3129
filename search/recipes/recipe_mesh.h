#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "search/recipes/recipe.h"
#include "topologies/topology.h"

namespace pipesim {

/// The devices of a topology as a recipe arranges them. Device number r has, along each axis, the coordinate
/// r / (product of the degrees of closer axes) % degree.
class RecipeMesh {
 public:
  /// The recipe's degrees multiply up to the devices.
  RecipeMesh(const Recipe& recipe, const Topology& topology);

  /// The devices of a pipeline's group, the coordinate along the last axis of slowest_first() changing first.
  [[nodiscard]] std::span<const DeviceId> group(std::int64_t number) const {
    return groups_[static_cast<std::size_t>(number)];
  }
  /// Tensor, Context and Data in the recipe's order, the most distant first.
  [[nodiscard]] std::span<const MeshAxis> slowest_first() const { return axes_; }

 private:
  std::vector<MeshAxis> axes_;
  std::vector<std::vector<DeviceId>> groups_;
};

}  // namespace pipesim
