#include "search/recipe_planner/measured_meshes.h"

#include <numeric>
#include <set>

namespace pipesim {

SizedRecipeModel& MeasuredMeshes::sized(const Recipe& mesh) {
  const std::pair key(mesh.data * mesh.microbatch, mesh.context);
  std::unique_ptr<SizedRecipeModel>& made = sized_[key];
  if (!made)
    made = std::make_unique<SizedRecipeModel>(request_.graph_of(key.first, key.second), parts_, request_);
  return *made;
}

void MeasuredMeshes::limit_tables() {
  constexpr Bytes kMostOfAll(500'000'000);
  Bytes all;
  for (const auto& [key, made] : sized_) all += made->meter.bytes();
  if (all <= kMostOfAll) return;
  for (const auto& [key, made] : sized_) made->meter.forget();
}

const std::vector<std::int64_t>& MeasuredMeshes::groups_of(const Recipe& mesh) {
  std::vector<std::int64_t>& groups = groups_[mesh.pipeline];
  if (groups.empty()) groups = distinct_groups(mesh.pipeline, request_.costs.topology());
  return groups;
}

const RecipeMeshCosts& MeasuredMeshes::one(const Recipe& mesh, CostsByMesh& known, Measure measure) {
  all(std::span(&mesh, 1), known, measure);
  return known.at(mesh.str());
}

void MeasuredMeshes::all(std::span<const Recipe> meshes, CostsByMesh& known, Measure measure) {
  struct Work {
    const Recipe* mesh;
    std::string name;
    const std::vector<std::int64_t>* groups;
    RecipeMeshCosts costs;
  };
  std::map<SizedRecipeModel*, std::vector<Work>> by_model;
  std::set<std::string> seen;
  for (const Recipe& mesh : meshes) {
    std::string name = mesh.str();
    if (!known.contains(name) && seen.insert(name).second)
      by_model[&sized(mesh)].push_back({&mesh, std::move(name), &groups_of(mesh), {}});
  }
  at_the_same_time(by_model, [&](SizedRecipeModel& model, Work& work) {
    work.costs = (model.meter.*measure)(*work.mesh, *work.groups);
  });
  for (auto& [model, all] : by_model) {
    for (Work& work : all) known.emplace(std::move(work.name), std::move(work.costs));
  }
}

void MeasuredMeshes::measure_traffic(std::span<ShardedMesh> meshes) {
  struct Work {
    ShardedMesh* what;
    const std::vector<std::int64_t>* groups;
  };
  std::map<SizedRecipeModel*, std::vector<Work>> by_model;
  for (ShardedMesh& what : meshes) by_model[&sized(*what.mesh)].push_back({&what, &groups_of(*what.mesh)});
  at_the_same_time(by_model, [](SizedRecipeModel& model, Work& work) {
    work.what->traffic =
        model.meter.traffic(*work.what->mesh, work.what->sharding, work.what->microbatches, *work.groups);
  });
}

// A model's work is that of one thread.
template <class Work, class Run>
void MeasuredMeshes::at_the_same_time(std::map<SizedRecipeModel*, std::vector<Work>>& by_model, Run run) {
  if (by_model.empty()) return;
  if (by_model.size() > 1 || by_model.begin()->first != measured_last_) limit_tables();
  measured_last_ = by_model.size() > 1 ? nullptr : by_model.begin()->first;
  std::vector<std::pair<SizedRecipeModel* const, std::vector<Work>>*> jobs;
  for (auto& job : by_model) jobs.push_back(&job);
  std::vector<std::size_t> numbers(jobs.size());
  std::iota(numbers.begin(), numbers.end(), std::size_t{0});
  threads_.run(numbers, [&](std::size_t number, std::size_t) {
    for (Work& work : jobs[number]->second) run(*jobs[number]->first, work);
  });
}

}  // namespace pipesim
