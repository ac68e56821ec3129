#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "search/recipes/recipe.h"
#include "topologies/topology.h"

namespace pipesim {

/// An axis of the experts' mesh or, of their copies, the part that lies along one axis of the other mesh.
struct ExpertMeshPart {
  MeshAxis axis = MeshAxis::Data;  ///< Tensor: etp, Expert: ep, Data: edp
  std::int64_t degree = 1;
  /// For edp: the axis along which these copies differ, so that each has the tokens of its coordinate.
  /// Nothing where the meshes do not nest.
  std::optional<MeshAxis> along;
  bool operator==(const ExpertMeshPart&) const = default;
};

/// The devices of a topology as a recipe arranges them. Device number r has, along each axis, the coordinate
/// r / (product of the degrees of closer axes) % degree. A group of the pipeline has a second mesh, for
/// experts: etp, ep and edp, with the places of tp, ep and dp in the recipe's order, as Megatron-LM has it.
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
  /// The experts' mesh. It has the devices of a group as well.
  [[nodiscard]] std::span<const ExpertMeshPart> experts_slowest_first() const { return expert_parts_; }

 private:
  std::vector<MeshAxis> axes_;
  std::vector<ExpertMeshPart> expert_parts_;
  std::vector<std::vector<DeviceId>> groups_;
};

}  // namespace pipesim
