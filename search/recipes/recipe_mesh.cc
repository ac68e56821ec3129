#include "search/recipes/recipe_mesh.h"

#include <algorithm>

#include "sim/base/errors.h"

namespace pipesim {
namespace {

// Devices of a group that differ in one coordinate are a multiple of `stride` apart, below `end`.
struct AxisSpan {
  MeshAxis axis;
  std::int64_t stride, end;
};

// The axes that `degree` knows, the closest first.
template <class Degree>
std::vector<AxisSpan> spans_of(const Recipe& recipe, Degree degree) {
  std::vector<AxisSpan> spans;
  std::int64_t stride = 1;
  for (const MeshAxis axis : recipe.order) {
    const std::int64_t d = degree(axis);
    if (d == 0) continue;
    spans.push_back({axis, stride, stride * d});
    stride *= d;
  }
  return spans;
}

std::vector<AxisSpan> dense_spans(const Recipe& recipe) {
  return spans_of(recipe, [&](MeshAxis axis) -> std::int64_t {
    if (axis == MeshAxis::Tensor) return recipe.tensor;
    if (axis == MeshAxis::Context) return recipe.context;
    return axis == MeshAxis::Data ? recipe.data : 0;
  });
}

std::vector<AxisSpan> expert_spans(const Recipe& recipe) {
  return spans_of(recipe, [&](MeshAxis axis) -> std::int64_t {
    if (axis == MeshAxis::Tensor) return recipe.expert_tensor_degree();
    if (axis == MeshAxis::Expert) return recipe.expert;
    return axis == MeshAxis::Data ? recipe.expert_data() : 0;
  });
}

// The copies of an expert, cut where an axis of the other mesh begins or ends.
void add_copies(const AxisSpan& copies, const std::vector<AxisSpan>& dense,
                std::vector<ExpertMeshPart>& parts) {
  std::int64_t rest = copies.end / copies.stride;
  for (auto axis = dense.rbegin(); axis != dense.rend(); ++axis) {
    const std::int64_t begin = std::max(copies.stride, axis->stride), end = std::min(copies.end, axis->end);
    if (begin >= end || end % begin != 0 || rest % (end / begin) != 0) continue;
    parts.push_back({MeshAxis::Data, end / begin, axis->axis});
    rest /= end / begin;
  }
  if (rest > 1) parts.push_back({MeshAxis::Data, rest, std::nullopt});
}

}  // namespace

RecipeMesh::RecipeMesh(const Recipe& recipe, const Topology& topology) {
  const std::vector<AxisSpan> dense = dense_spans(recipe), experts = expert_spans(recipe);
  for (const AxisSpan& span : dense) axes_.insert(axes_.begin(), span.axis);
  for (auto span = experts.rbegin(); span != experts.rend(); ++span) {
    if (span->axis == MeshAxis::Data) {
      add_copies(*span, dense, expert_parts_);
    } else {
      expert_parts_.push_back({span->axis, span->end / span->stride, std::nullopt});
    }
  }
  std::int64_t stride = 1;  // of the pipeline's axis
  for (std::size_t i = 0; recipe.order[i] != MeshAxis::Pipeline; ++i) {
    const auto closer = std::ranges::find(dense, recipe.order[i], &AxisSpan::axis);
    if (closer != dense.end()) stride *= closer->end / closer->stride;
  }
  const auto devices = static_cast<std::int64_t>(topology.num_devices());
  if (recipe.devices() != devices) throw InternalError("a recipe's mesh has other devices than the topology");
  groups_.resize(static_cast<std::size_t>(recipe.pipeline));
  for (std::int64_t d = 0; d < devices; ++d)
    groups_[static_cast<std::size_t>(d / stride % recipe.pipeline)].emplace_back(static_cast<std::size_t>(d));
}

}  // namespace pipesim
