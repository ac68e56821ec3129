#include "search/recipes/recipe_mesh.h"

#include "sim/base/errors.h"

namespace pipesim {

RecipeMesh::RecipeMesh(const Recipe& recipe, const Topology& topology) {
  std::int64_t stride = 1;  // of the pipeline's axis
  bool closer = true;
  for (const MeshAxis axis : recipe.order) {
    const std::int64_t degree = axis == MeshAxis::Tensor    ? recipe.tensor
                                : axis == MeshAxis::Context ? recipe.context
                                : axis == MeshAxis::Data    ? recipe.data
                                                            : 1;
    if (axis == MeshAxis::Pipeline) closer = false;
    if (closer) stride *= degree;
    if (axis == MeshAxis::Tensor || axis == MeshAxis::Context || axis == MeshAxis::Data)
      axes_.insert(axes_.begin(), axis);
  }
  const auto devices = static_cast<std::int64_t>(topology.num_devices());
  if (recipe.devices() != devices) throw InternalError("a recipe's mesh has other devices than the topology");
  groups_.resize(static_cast<std::size_t>(recipe.pipeline));
  for (std::int64_t d = 0; d < devices; ++d)
    groups_[static_cast<std::size_t>(d / stride % recipe.pipeline)].emplace_back(static_cast<std::size_t>(d));
}

}  // namespace pipesim
