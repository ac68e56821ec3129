#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <tuple>
#include <vector>

#include "search/recipe_planner/measured_meshes.h"
#include "search/recipe_planner/open_recipes.h"
#include "search/recipe_planner/ranking_request.h"
#include "search/recipe_planner/recipe_bounds.h"
#include "search/recipe_planner/space/recipe_space.h"
#include "search/recipe_planner/steps/schedule_shape.h"
#include "search/recipe_planner/steps/step_sequence.h"
#include "search/worker_threads.h"

namespace pipesim {

/// Returns the largest value of a function over copies of the model. There is at least one copy.
template <class Copy, class Of>
auto most_of(const std::vector<Copy>& copies, Of of) {
  auto most = of(copies.front());
  for (std::size_t c = 1; c < copies.size(); ++c) most = std::max(most, of(copies[c]));
  return most;
}

/// Bounds the recipes of a space, from the cheapest bound to the closest, and keeps what they have in common.
/// For one thread at a time; measures on several. After OutOfTime it is as usable as before.
class RecipeBounder {
 public:
  /// All must outlive it.
  RecipeBounder(const RankingRequest& request, const RecipeSpace& space, WorkerThreads& threads);

  /// Whether the model can have the batch that a mesh asks for. Where it can't, nothing below may be asked.
  [[nodiscard]] bool takes_batch_of(std::uint32_t mesh);
  /// The batch, and the parts of the sequence, of the model on which a mesh is measured: meshes of one model
  /// share much when they are measured after one another.
  [[nodiscard]] std::pair<std::int64_t, std::int64_t> measured_model(std::uint32_t mesh);

  /// Bounds of the time of all recipes of a mesh (ns): by how long devices are busy, which costs a tenth; or
  /// by all that measure() measures. Measuring several at once is faster.
  void measure_busy(std::span<const std::uint32_t> meshes);
  [[nodiscard]] Nanoseconds least_busy(std::uint32_t mesh);
  void measure(std::span<const std::uint32_t> meshes);
  [[nodiscard]] Nanoseconds least_time(std::uint32_t mesh) const;

  /// Bounds every recipe of a measured mesh by what its parts take, and its memory.
  using Bounded = std::function<void(const OpenRecipe& recipe, Bytes memory)>;
  void bound_recipes(std::uint32_t mesh, const Bounded& each);
  /// Whether the next closer bound is that of traffic; if not, it is that of steps.
  [[nodiscard]] bool needs_traffic(const OpenRecipe& recipe) const;
  void bound_by_steps(OpenRecipe& recipe);
  void bound_by_traffic(std::span<OpenRecipe> recipes);
  /// Returns the bound of its time, with the memory that it needs at least.
  [[nodiscard]] RecipeBound bound_of(const OpenRecipe& recipe);

  [[nodiscard]] Recipe recipe_of(const OpenRecipe& recipe) const;
  [[nodiscard]] const PipelineChoice& pipeline_of(const OpenRecipe& recipe) const;
  /// Returns the largest peak that fits on any device, when it is in as many communicators as every device of
  /// the recipe is in at least.
  [[nodiscard]] Bytes usable_of(const OpenRecipe& recipe) const;
  /// The model that a recipe is simulated on. InputError where its tensors are too large.
  std::shared_ptr<SizedRecipeModel> sized(const OpenRecipe& recipe);

 private:
  // What was measured of a mesh with fewer copies.
  struct MeasuredMesh {
    Recipe mesh;
    std::int64_t times = 1;  // so many times its copies
    const MeshCosts* costs = nullptr;
    std::vector<CopyCosts> copies = {};  // of `costs`
  };
  MeasuredMesh& measured_of(std::uint32_t mesh);
  [[nodiscard]] bool takes(const Recipe& mesh);
  [[nodiscard]] Nanoseconds least_time(std::uint32_t mesh, const std::vector<CopyCosts>& copies) const;
  [[nodiscard]] PermanentBytes permanent_of(std::uint32_t mesh, const StateSharding& sharding,
                                            bool both_ways) const;
  const ScheduleShape& shape_of(const Recipe& mesh, const PipelineChoice& pipeline);
  [[nodiscard]] std::vector<DividedCosts> divided_copies(std::uint32_t mesh, const PipelineChoice& pipeline,
                                                         const Recompute& recompute) const;
  [[nodiscard]] std::vector<DividedCosts> divided(const OpenRecipe& recipe) const;
  const StepSequence& steps_of(const OpenRecipe& recipe);
  // Mesh, sharding, and whether the schedule goes both ways.
  using TrafficKey = std::tuple<std::uint32_t, std::size_t, bool>;
  [[nodiscard]] TrafficKey traffic_key(const OpenRecipe& recipe) const;
  void measure_traffic(std::span<const OpenRecipe> recipes);
  Nanoseconds time_of_traffic(const OpenRecipe& recipe);

  const RankingRequest& request_;
  const RecipeSpace& space_;
  ModelParts parts_;
  MeasuredMeshes meshes_;
  std::vector<Bytes> usable_;                       // by the number of communicators
  std::map<std::int64_t, bool> takes_batch_;        // by batch
  std::map<std::uint32_t, MeasuredMesh> measured_;  // by mesh
  std::map<TrafficKey, MeshTraffic> traffic_;
  ScheduleShapes shapes_;
  StepSequences sequences_;
};

}  // namespace pipesim
