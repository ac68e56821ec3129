#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <set>
#include <vector>

#include "search/recipe_planner/space/recipe_space.h"

namespace pipesim {

/// Ways through the meshes of a space: where to begin, and which are near others. A fast mesh has fast
/// neighbours, so that a walk from usual ones finds the fastest soon, though nothing proves that.
class MeshWalk {
 public:
  /// `space` must outlive it.
  explicit MeshWalk(const RecipeSpace& space);

  /// Returns usual meshes, by their numbers. For each tp and pp these have the fewest parts of the sequence
  /// and the fewest samples in a microbatch, with sp. One divides experts inside a node, one as far as they
  /// go, and one not at all. With `samples` above 1 it returns those without a pipeline and with about as
  /// many samples on a copy instead, since they gather divided weights less often.
  [[nodiscard]] std::vector<std::uint32_t> usual(std::int64_t samples = 1) const;
  /// Returns the meshes in which one degree is a prime factor larger and another smaller, or one other part
  /// differs.
  [[nodiscard]] std::vector<std::uint32_t> near(std::uint32_t mesh) const;

 private:
  enum Part : std::uint8_t { Tensor, Context, Data, Pipeline, Expert, ExpertTensor, Microbatch, Sequence };
  static constexpr std::size_t kParts = 8;
  using Parts = std::array<std::int64_t, kParts>;
  static Parts parts_of(const Recipe& mesh);
  class Neighbours;

  const RecipeSpace& space_;
  std::map<Parts, std::uint32_t> numbers_;
  std::set<std::int64_t> microbatches_;  // samples of a copy
};

}  // namespace pipesim
