#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "search/recipe_planner/measuring/distinct_groups.h"
#include "search/recipe_planner/measuring/mesh_costs.h"
#include "search/recipe_planner/recipe_scorer.h"
#include "search/worker_threads.h"

namespace pipesim {

/// What is measured of the meshes of a ranking. The models of different batches and orders of
/// positions share nothing, so meshes of several models are measured at the same time. For one thread at a
/// time.
class MeasuredMeshes {
 public:
  /// All must outlive it.
  MeasuredMeshes(const RankingRequest& request, const ModelParts& parts, WorkerThreads& threads)
      : request_(request), parts_(parts), threads_(threads) {}

  /// Returns the model that recipes of this mesh need. Few models are kept that nobody else holds.
  std::shared_ptr<SizedRecipeModel> sized(const Recipe& mesh);

  /// See MeshMeter. Valid as long as this is.
  const MeshCosts& busy(const Recipe& mesh) { return one(mesh, busy_, &MeshMeter::busy); }
  const MeshCosts& costs(const Recipe& mesh) { return one(mesh, costs_, &MeshMeter::costs); }

  /// Measures them, so that the functions above only look them up.
  void measure_busy(std::span<const Recipe> meshes) { all(meshes, busy_, &MeshMeter::busy); }
  void measure_costs(std::span<const Recipe> meshes) { all(meshes, costs_, &MeshMeter::costs); }

  struct ShardedMesh {
    const Recipe* mesh;
    FewestCopies copies;  ///< of which transfers within parts are measured; or the mesh itself
    std::vector<StateSharding> shardings;  ///< that divide the state of weights in the same way
    bool both_ways = false;                ///< the schedule
    std::int64_t microbatches = 1;
    std::vector<MeshTraffic> traffic = {};  ///< is set, by sharding
  };
  void measure_traffic(std::span<ShardedMesh> meshes);

 private:
  // Models are ordered by shape, so that the order does not depend on their addresses.
  struct InOrderOfMaking {
    bool operator()(const std::shared_ptr<SizedRecipeModel>& a,
                    const std::shared_ptr<SizedRecipeModel>& b) const {
      return a->shape < b->shape;
    }
  };
  using CostsByMesh = std::map<std::string, MeshCosts>;
  using Measure = RecipeMeshCosts (MeshMeter::*)(const Recipe&, const std::vector<std::int64_t>&);

  const MeshCosts& one(const Recipe& mesh, CostsByMesh& known, Measure measure);
  void all(std::span<const Recipe> meshes, CostsByMesh& known, Measure measure);
  // Work on meshes is grouped by the model that they need.
  template <class Work>
  using WorkByModel = std::map<std::shared_ptr<SizedRecipeModel>, std::vector<Work>, InOrderOfMaking>;
  template <class Work, class Run>
  void at_the_same_time(WorkByModel<Work>& by_model, Run run);
  const StageGroups& groups_of(const Recipe& mesh, bool both_ways = false);
  void measure_transfers(std::span<const ShardedMesh> meshes);
  void measure_weights(std::span<const ShardedMesh> meshes);
  void measure_stage_transfers(std::span<const ShardedMesh> meshes);
  [[nodiscard]] std::vector<StageTransfer> stage_transfers_of(const ShardedMesh& what) const;
  void limit_tables();
  void limit_models();

  const RankingRequest& request_;
  const ModelParts& parts_;
  WorkerThreads& threads_;
  struct KeptModel {
    std::shared_ptr<SizedRecipeModel> model;
    std::uint64_t used = 0;  // when, as a count of uses
  };
  std::map<ModelShape, KeptModel> sized_;
  std::uint64_t uses_ = 0;
  std::shared_ptr<const SizedRecipeModel> measured_last_;
  std::map<std::pair<std::int64_t, bool>, StageGroups> groups_;  // by their number in a pipeline
  CostsByMesh busy_, costs_;
  // What many meshes have in common: transfers of meshes with the fewest copies, by group; weights by all
  // degrees, the group and how state is divided, whatever the number of samples in a microbatch.
  using CopyKey = std::pair<std::string, std::int64_t>;
  using WeightsKey = std::tuple<std::string, std::int64_t, bool, std::int32_t, bool>;
  static WeightsKey weights_key(const ShardedMesh& what, std::int64_t group);
  std::map<CopyKey, HeldByParts> transfers_;
  std::map<WeightsKey, HeldByPartsWeights> weights_;
  std::map<std::pair<std::int64_t, std::int64_t>, NeighbourGroups> neighbours_;  // by neighbour_groups()
  // These are of meshes with the fewest copies, by class of neighbours. Neighbours are FewestCopies::times
  // groups apart.
  std::map<CopyKey, std::vector<StageTransfer>> stage_transfers_;
};

}  // namespace pipesim
