#include "search/recipe_planner/measured_meshes.h"

#include <algorithm>
#include <cstddef>
#include <numeric>
#include <optional>
#include <set>

namespace pipesim {

std::shared_ptr<SizedRecipeModel> MeasuredMeshes::sized(const Recipe& mesh) {
  const ModelShape key = request_.shape_of(mesh);
  const auto known = sized_.find(key);
  if (known != sized_.end()) {
    known->second.used = ++uses_;
    return known->second.model;
  }
  limit_models();
  auto made = std::make_shared<SizedRecipeModel>(request_.graph_of(key), key, parts_, request_);
  return sized_.emplace(key, KeptModel{std::move(made), ++uses_}).first->second.model;
}

// Forgets the models that were not used for longest. Another measurement of theirs makes them again.
void MeasuredMeshes::limit_models() {
  constexpr std::size_t kMostModels = 64;
  if (sized_.size() < kMostModels) return;
  std::vector<std::uint64_t> used;
  for (const auto& [key, kept] : sized_) used.push_back(kept.used);
  const auto middle = used.begin() + static_cast<std::ptrdiff_t>(used.size() / 2);
  std::ranges::nth_element(used, middle);
  std::erase_if(sized_,
                [&](const auto& of) { return of.second.used < *middle && of.second.model.use_count() == 1; });
}

void MeasuredMeshes::limit_tables() {
  constexpr Bytes kMostOfAll(200'000'000);
  Bytes all;
  for (const auto& [key, kept] : sized_) all += kept.model->meter.bytes();
  if (all <= kMostOfAll) return;
  for (const auto& [key, kept] : sized_) kept.model->meter.forget();
}

const StageGroups& MeasuredMeshes::groups_of(const Recipe& mesh, bool both_ways) {
  const auto [groups, is_new] = groups_.try_emplace({mesh.pipeline, both_ways});
  if (is_new) {
    const Topology& topology = request_.costs.topology();
    groups->second = {
        both_ways ? distinct_pairs(mesh.pipeline, topology) : distinct_groups(mesh.pipeline, topology),
        both_ways, classes_by_kinds(mesh.pipeline, topology)};
  }
  return groups->second;
}

const MeshCosts& MeasuredMeshes::one(const Recipe& mesh, CostsByMesh& known, Measure measure) {
  all(std::span(&mesh, 1), known, measure);
  return known.at(mesh.str());
}

void MeasuredMeshes::all(std::span<const Recipe> meshes, CostsByMesh& known, Measure measure) {
  struct Work {
    const Recipe* mesh;
    std::string name;
    const StageGroups* groups;
    MeshCosts costs;
  };
  WorkByModel<Work> by_model;
  std::set<std::string> seen;
  for (const Recipe& mesh : meshes) {
    std::string name = mesh.str();
    if (!known.contains(name) && seen.insert(name).second)
      by_model[sized(mesh)].push_back({&mesh, std::move(name), &groups_of(mesh), {}});
  }
  at_the_same_time(by_model, [&](SizedRecipeModel& model, Work& work) {
    for (const std::vector<std::int64_t>& of_class : work.groups->distinct_of_class())
      work.costs.of_class.push_back((model.meter.*measure)(*work.mesh, of_class));
    work.costs.class_of = work.groups->class_of;
  });
  for (auto& [model, all] : by_model) {
    for (Work& work : all) known.emplace(std::move(work.name), std::move(work.costs));
  }
}

void MeasuredMeshes::measure_transfers(std::span<const ShardedMesh> meshes) {
  struct Work {
    const Recipe* copy;
    std::int64_t group;
    HeldByParts* held;
  };
  WorkByModel<Work> by_model;
  for (const ShardedMesh& what : meshes) {
    for (const std::int64_t g : groups_of(*what.mesh, what.both_ways).distinct) {
      const std::int64_t group = g * what.copies.times;
      const auto [held, is_new] = transfers_.try_emplace({what.copies.mesh.str(), group});
      if (is_new) by_model[sized(what.copies.mesh)].push_back({&what.copies.mesh, group, &held->second});
    }
  }
  at_the_same_time(by_model, [](SizedRecipeModel& model, Work& work) {
    *work.held = model.meter.transfers(*work.copy, work.group);
  });
}

MeasuredMeshes::WeightsKey MeasuredMeshes::weights_key(const ShardedMesh& what, std::int64_t group) {
  Recipe degrees = *what.mesh;
  degrees.microbatch = 1;
  const StateSharding& sharding = what.shardings.front();
  return {degrees.str(), group, sharding.any(), sharding.group, what.both_ways};
}

void MeasuredMeshes::measure_weights(std::span<const ShardedMesh> meshes) {
  struct Work {
    const ShardedMesh* what;
    std::int64_t group;
    HeldByPartsWeights* held;
  };
  WorkByModel<Work> by_model;
  for (const ShardedMesh& what : meshes) {
    for (const std::int64_t group : groups_of(*what.mesh, what.both_ways).distinct) {
      const auto [held, is_new] = weights_.try_emplace(weights_key(what, group));
      if (is_new) by_model[sized(*what.mesh)].push_back({&what, group, &held->second});
    }
  }
  at_the_same_time(by_model, [](SizedRecipeModel& model, Work& work) {
    *work.held =
        model.meter.weights(*work.what->mesh, work.what->shardings.front(), work.group, work.what->both_ways);
  });
}

// Groups of the copies' mesh that are neighbours in a pipeline are as far apart as it has times the copies.
void MeasuredMeshes::measure_stage_transfers(std::span<const ShardedMesh> meshes) {
  struct Work {
    const Recipe* copy;
    std::int64_t group, other;
    StageTransfer* made;
  };
  WorkByModel<Work> by_model;
  for (const ShardedMesh& what : meshes) {
    const Recipe& copy = what.copies.mesh;
    if (what.mesh->pipeline == 1) continue;
    const auto [pairs, is_new_number] = neighbours_.try_emplace({copy.pipeline, what.copies.times});
    if (is_new_number)
      pairs->second = neighbour_groups(copy.pipeline, what.copies.times, request_.costs.topology());
    const auto [stage_transfers, is_new] =
        stage_transfers_.try_emplace({copy.str(), what.copies.times}, pairs->second.distinct.size());
    for (std::size_t c = 0; is_new && c < stage_transfers->second.size(); ++c) {
      const std::int64_t group = pairs->second.distinct[c];
      by_model[sized(copy)].push_back(
          {&copy, group, (group + what.copies.times) % copy.pipeline, &stage_transfers->second[c]});
    }
  }
  at_the_same_time(by_model, [](SizedRecipeModel& model, Work& work) {
    *work.made = model.meter.stage_transfer(*work.copy, work.group, work.other);
  });
}

std::vector<StageTransfer> MeasuredMeshes::stage_transfers_of(const ShardedMesh& what) const {
  if (what.mesh->pipeline == 1) return {};
  const std::vector<std::size_t>& class_of =
      neighbours_.at({what.copies.mesh.pipeline, what.copies.times}).class_of;
  const std::vector<StageTransfer>& by_class =
      stage_transfers_.at({what.copies.mesh.str(), what.copies.times});
  const auto times = static_cast<std::size_t>(what.copies.times);
  std::vector<StageTransfer> stage_transfers;  // the least of all copies
  for (std::size_t group = 0; group < class_of.size(); ++group) {
    if (group % times == 0) stage_transfers.push_back(by_class[class_of[group]]);
    lower(stage_transfers.back(), by_class[class_of[group]]);
  }
  return stage_transfers;
}

void MeasuredMeshes::measure_traffic(std::span<ShardedMesh> meshes) {
  try {
    measure_transfers(meshes);
    measure_weights(meshes);
    measure_stage_transfers(meshes);
  } catch (...) {  // some are not measured
    transfers_.clear(), weights_.clear(), stage_transfers_.clear();
    throw;
  }
  for (ShardedMesh& what : meshes) {
    const std::vector<StageTransfer> stage_transfers = stage_transfers_of(what);
    for (const StateSharding& sharding : what.shardings) {
      Recipe recipe = *what.mesh;
      recipe.state_sharding = sharding;
      const bool beside_backward = reduces_beside_backward(recipe, request_.costs.runtime());
      const int gathers = least_gathers(recipe, request_.costs.runtime());
      std::optional<MeshTraffic> least;
      for (const std::int64_t group : groups_of(*what.mesh, what.both_ways).distinct) {
        const MeshTraffic made =
            on_busiest_lanes(transfers_.at({what.copies.mesh.str(), group * what.copies.times}),
                             weights_.at(weights_key(what, group)), sharding, parts_, what.microbatches,
                             gathers, beside_backward);
        if (least) lower(*least, made);
        if (!least) least = made;
      }
      least->stage_transfers = stage_transfers;
      what.traffic.push_back(std::move(*least));
    }
  }
}

// A model's work is that of one thread.
template <class Work, class Run>
void MeasuredMeshes::at_the_same_time(WorkByModel<Work>& by_model, Run run) {
  if (by_model.empty()) return;
  if (by_model.size() > 1 || by_model.begin()->first != measured_last_) limit_tables();
  measured_last_ = by_model.size() > 1 ? nullptr : by_model.begin()->first;
  std::vector<typename WorkByModel<Work>::value_type*> jobs;
  for (auto& job : by_model) jobs.push_back(&job);
  std::vector<std::size_t> numbers(jobs.size());
  std::iota(numbers.begin(), numbers.end(), std::size_t{0});
  constexpr Bytes kMostOfOne(60'000'000);
  threads_.run(numbers, [&](std::size_t number, std::size_t) {
    SizedRecipeModel& model = *jobs[number]->first;
    for (Work& work : jobs[number]->second) run(model, work);
    if (model.meter.bytes() > kMostOfOne) model.meter.forget();
  });
}

}  // namespace pipesim
