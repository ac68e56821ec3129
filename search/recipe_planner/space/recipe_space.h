#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "search/recipe_planner/space/recipe_filter.h"
#include "search/recipes/recipe_model.h"
#include "topologies/topology.h"

namespace pipesim {

/// How the layers of a model lie on the groups of a pipeline.
struct StageDivision {
  std::int64_t chunks = 1;                  ///< stages on each group
  bool in_v = false;                        ///< where they lie, see device_of_stage()
  std::optional<std::int64_t> first, last;  ///< layers on these groups, where they differ from the others
  std::vector<std::int64_t> of_groups;      ///< layers on each group, where these do not say enough
  std::vector<std::int64_t> layers;         ///< of each stage
  /// Sets the parts of a recipe.
  void apply_to(Recipe& recipe) const;
};

/// A division, the order of steps, and what runs beside them: reductions of gradients, messages.
struct PipelineChoice {
  std::size_t division = 0;  ///< of RecipeSpace::divisions()
  std::string schedule;      ///< "": that which the number of chunks implies
  bool both_ways = false;    ///< has another copy of the weights, which divides state with the first one
  std::optional<GradientReduction> reduction = {};
  bool repeats = false;  ///< an earlier choice differs in the reduction alone
  std::optional<StageMessages> messages = {};
};

/// All recipes of a model on a topology for so many samples an iteration:
///   tp · cp · pp · dp = devices, tp within a node unless a condition asks for more
///   ep and etp where there are experts, etp a divisor of tp
///   sp on and off where tp > 1
///   mbs 1, 2, 4, 8 or 16, or what a condition asks for
///   first and last stage within two layers of the others; every vpp that divides the layers of a group
///   where devices are of several kinds, mixed_divisions() too
///   the schedules that take no number and train as the model does without a pipeline;
///   those that go both ways where gradients are reduced once: zero 0, 1, and 3 with reshard=last
///   recompute none, selective, full, or those of the filter's rules and conditions
///   zero 0 to 3, over all copies of a weight or over those inside a node
///   overlap of gathers, reductions, messages and tp as the filter's rules say, or its conditions ask for
/// Everything else has its default, and the filter's rules allow all of it. Recipes that expand to the same
/// plan come once: zero needs copies, and of two ways to write a division of layers the shorter one counts.
///
/// A recipe is a mesh (all degrees, sp and mbs) and choices, which go together where has() says so.
class RecipeSpace {
 public:
  /// `model` and `topology` must outlive it. Throws OutOfTime when the thread's deadline
  /// (sim/base/deadline.h) passes before all recipes are counted.
  RecipeSpace(const RecipeModel& model, const Topology& topology, std::int64_t samples, RecipeFilter filter);

  [[nodiscard]] std::span<const Recipe> meshes() const { return meshes_; }
  [[nodiscard]] std::int64_t microbatches(const Recipe& mesh) const {
    return samples_ / (mesh.data * mesh.microbatch);
  }
  [[nodiscard]] std::span<const StageDivision> divisions(std::int64_t groups) const;
  [[nodiscard]] std::span<const PipelineChoice> pipelines(const Recipe& mesh) const;
  [[nodiscard]] std::span<const Recompute> recomputes() const { return recomputes_; }
  [[nodiscard]] std::span<const StateSharding> shardings(const Recipe& mesh) const;
  [[nodiscard]] Recipe recipe(const Recipe& mesh, const PipelineChoice& pipeline, const Recompute& recompute,
                              const StateSharding& sharding) const;

  /// Whether these choices are a recipe of the space.
  [[nodiscard]] bool has(const Recipe& mesh, const PipelineChoice& pipeline, const Recompute& recompute,
                         const StateSharding& sharding) const;

  [[nodiscard]] std::int64_t size() const { return size_; }
  [[nodiscard]] std::int64_t devices_in_node() const { return in_node_; }  ///< in the smallest
  [[nodiscard]] std::int64_t size_of(std::size_t mesh) const { return sizes_[mesh]; }
  void visit(const std::function<void(const Recipe&)>& each) const;
  [[nodiscard]] const RecipeFilter& filter() const { return filter_; }
  /// What is enumerated, for reports.
  static std::string description();

 private:
  void find_meshes();
  void add_meshes(const Recipe& degrees);
  void add_microbatches(Recipe mesh);
  void find_recomputes();
  void count_recipes();
  [[nodiscard]] std::int64_t count_recipes(const Recipe& mesh) const;
  [[nodiscard]] std::vector<std::optional<GradientReduction>> reductions(std::int64_t groups) const;
  [[nodiscard]] std::vector<std::optional<StageMessages>> messages_under(const Recipe& pipeline) const;
  [[nodiscard]] std::vector<StateSharding> kinds_of_sharding(bool pipeline) const;
  [[nodiscard]] std::vector<StageDivision> find_divisions(std::int64_t groups) const;
  [[nodiscard]] std::vector<PipelineChoice> find_pipelines(std::int64_t groups,
                                                           std::int64_t microbatches) const;
  [[nodiscard]] std::vector<StateSharding> find_shardings(const Recipe& mesh) const;

  const RecipeModel& model_;
  const Topology& topology_;
  std::int64_t devices_, in_node_, samples_;
  RecipeFilter filter_;
  std::vector<Recipe> meshes_;
  std::vector<Recompute> recomputes_;
  std::map<std::int64_t, std::vector<StageDivision>> divisions_;  // by groups
  std::map<std::pair<std::int64_t, std::int64_t>, std::vector<PipelineChoice>>
      pipelines_;  // by groups and microbatches
  struct Copies {
    std::int64_t tensor, context, data, of_experts;
    bool pipeline;
    auto operator<=>(const Copies&) const = default;
  };
  static Copies copies_of(const Recipe& mesh);
  std::map<Copies, std::vector<StateSharding>> shardings_;
  std::vector<std::int64_t> sizes_;  // by mesh
  std::int64_t size_ = 0;
};

/// Why the space is empty: one line with the nearest that works.
std::string why_no_recipe(const RecipeModel& model, const Topology& topology, std::int64_t samples,
                          const RecipeFilter& filter);

}  // namespace pipesim
