#include "search/recipe_planner/recipe_bounder.h"

#include <algorithm>
#include <array>

namespace pipesim {

RecipeBounder::RecipeBounder(const RankingRequest& request, const RecipeSpace& space, WorkerThreads& threads)
    : request_(request),
      space_(space),
      parts_(request.model, space.recomputes()),
      meshes_(request, parts_, threads) {
  const Topology& topology = request.costs.topology();
  for (std::int32_t communicators = 0; communicators <= kMostLeastCommunicators; ++communicators) {
    Bytes& most = usable_.emplace_back();
    for (std::size_t d = 0; d < topology.num_devices(); ++d)
      most = std::max(most, topology.usable_memory(DeviceId(d), communicators));
  }
}

bool RecipeBounder::takes(const Recipe& mesh) {
  if (!request_.takes_batch) return true;
  const auto [known, is_new] = takes_batch_.try_emplace(mesh.data * mesh.microbatch);
  if (is_new) known->second = request_.takes_batch(known->first);
  return known->second;
}

bool RecipeBounder::takes_batch_of(std::uint32_t mesh) { return takes(space_.meshes()[mesh]); }

RecipeBounder::MeasuredMesh& RecipeBounder::measured_of(std::uint32_t number) {
  const auto known = measured_.find(number);
  if (known != measured_.end()) return known->second;
  const Recipe& mesh = space_.meshes()[number];
  const FewestCopies fewest = with_fewest_copies(mesh);
  return measured_
      .emplace(number, takes(fewest.mesh) ? MeasuredMesh{fewest.mesh, fewest.times} : MeasuredMesh{mesh, 1})
      .first->second;
}

std::pair<std::int64_t, std::int64_t> RecipeBounder::measured_model(std::uint32_t mesh) {
  const Recipe& measured = measured_of(mesh).mesh;
  return {measured.data * measured.microbatch, measured.context};
}

void RecipeBounder::measure_busy(std::span<const std::uint32_t> meshes) {
  std::vector<Recipe> asked;
  for (const std::uint32_t mesh : meshes) asked.push_back(measured_of(mesh).mesh);
  meshes_.measure_busy(asked);
}

Nanoseconds RecipeBounder::least_busy(std::uint32_t mesh) {
  const MeasuredMesh& measured = measured_of(mesh);
  return least_time(mesh, meshes_.busy(measured.mesh).copies(measured.times));
}

void RecipeBounder::measure(std::span<const std::uint32_t> meshes) {
  std::vector<Recipe> asked;
  for (const std::uint32_t mesh : meshes) asked.push_back(measured_of(mesh).mesh);
  meshes_.measure_costs(asked);
  for (const std::uint32_t mesh : meshes) {
    MeasuredMesh& measured = measured_of(mesh);
    measured.costs = &meshes_.costs(measured.mesh);
    measured.copies = measured.costs->copies(measured.times);
  }
}

Nanoseconds RecipeBounder::least_time(std::uint32_t mesh) const {
  return least_time(mesh, measured_.at(mesh).copies);
}

Nanoseconds RecipeBounder::least_time(std::uint32_t number, const std::vector<CopyCosts>& copies) const {
  const Recipe& mesh = space_.meshes()[number];
  return most_of(copies, [&](const CopyCosts& copy) {
    return pipesim::least_time(copy, parts_, mesh.pipeline, space_.microbatches(mesh));
  });
}

void RecipeBounder::bound_recipes(std::uint32_t number, const Bounded& each) {
  const Recipe& mesh = space_.meshes()[number];
  const auto pipelines = space_.pipelines(mesh);
  const auto shardings = space_.shardings(mesh);
  std::array<std::vector<PermanentBytes>, 2> permanent;  // by whether the schedule goes both ways
  for (const StateSharding& sharding : shardings) {
    for (const bool both_ways : {false, true})
      permanent[both_ways].push_back(permanent_of(number, sharding, both_ways));
  }
  for (std::size_t r = 0; r < space_.recomputes().size(); ++r) {
    std::vector<DividedCosts> copies;
    std::pair<std::size_t, bool> divided(SIZE_MAX, false);
    for (std::size_t p = 0; p < pipelines.size(); ++p) {
      if (std::pair(pipelines[p].division, pipelines[p].both_ways) != divided) {
        divided = {pipelines[p].division, pipelines[p].both_ways};
        copies = divided_copies(number, pipelines[p], space_.recomputes()[r]);
      }
      const ScheduleShape& shape = shape_of(mesh, pipelines[p]);
      const Nanoseconds time = most_of(
          copies, [&](const DividedCosts& copy) { return copy.time(shape, space_.microbatches(mesh)); });
      for (std::size_t s = 0; s < shardings.size(); ++s) {
        if (!space_.has(mesh, pipelines[p], space_.recomputes()[r], shardings[s])) continue;
        const PermanentBytes& always = permanent[pipelines[p].both_ways][s];
        const Bytes memory =
            most_of(copies, [&](const DividedCosts& copy) { return copy.memory(shape, always); });
        each({time, number, static_cast<std::uint32_t>(p), static_cast<std::uint8_t>(r),
              static_cast<std::uint8_t>(s)},
             memory);
      }
    }
  }
}

// Where microbatches go both ways, the copies are twice as many.
PermanentBytes RecipeBounder::permanent_of(std::uint32_t mesh, const StateSharding& sharding,
                                           bool both_ways) const {
  const MeasuredMesh& measured = measured_.at(mesh);
  return permanent_bytes(measured.costs->of_class.front(), measured.times * (both_ways ? 2 : 1), sharding,
                         request_.options.gradient_type, request_.options.optimizer);
}

const ScheduleShape& RecipeBounder::shape_of(const Recipe& mesh, const PipelineChoice& pipeline) {
  Recipe recipe;
  recipe.chunks = space_.divisions(mesh.pipeline)[pipeline.division].chunks;
  recipe.schedule = pipeline.schedule;
  return shapes_.of(recipe.schedule_name(), mesh.pipeline, space_.microbatches(mesh), recipe.chunks);
}

Recipe RecipeBounder::recipe_of(const OpenRecipe& c) const {
  const Recipe& mesh = space_.meshes()[c.mesh];
  return space_.recipe(mesh, pipeline_of(c), space_.recomputes()[c.recompute],
                       space_.shardings(mesh)[c.sharding]);
}

const PipelineChoice& RecipeBounder::pipeline_of(const OpenRecipe& c) const {
  return space_.pipelines(space_.meshes()[c.mesh])[c.pipeline];
}

Bytes RecipeBounder::usable_of(const OpenRecipe& c) const {
  const Recipe& mesh = space_.meshes()[c.mesh];
  const StageDivision& division = space_.divisions(mesh.pipeline)[pipeline_of(c).division];
  return usable_[static_cast<std::size_t>(least_communicators(mesh, division))];
}

std::shared_ptr<SizedRecipeModel> RecipeBounder::sized(const OpenRecipe& c) {
  return meshes_.sized(space_.meshes()[c.mesh]);
}

bool RecipeBounder::needs_traffic(const OpenRecipe& c) const {
  const OpenRecipe::Known before =
      space_.meshes()[c.mesh].pipeline == 1 ? OpenRecipe::Known::OfParts : OpenRecipe::Known::OfSteps;
  return c.known == before;
}

void RecipeBounder::bound_by_steps(OpenRecipe& c) {
  const StepSequence& steps = steps_of(c);
  c.bound = std::max(
      c.bound, most_of(divided(c), [&](const DividedCosts& copy) { return copy.time_of_steps(steps); }));
  c.known = OpenRecipe::Known::OfSteps;
}

void RecipeBounder::bound_by_traffic(std::span<OpenRecipe> recipes) {
  measure_traffic(recipes);
  for (OpenRecipe& c : recipes) {
    c.bound = std::max(c.bound, time_of_traffic(c));
    c.known = OpenRecipe::Known::OfTraffic;
  }
}

RecipeBound RecipeBounder::bound_of(const OpenRecipe& c) {
  const Recipe& mesh = space_.meshes()[c.mesh];
  const ScheduleShape& shape = shape_of(mesh, pipeline_of(c));
  const PermanentBytes permanent =
      permanent_of(c.mesh, space_.shardings(mesh)[c.sharding], pipeline_of(c).both_ways);
  return {c.bound,
          most_of(divided(c), [&](const DividedCosts& copy) { return copy.memory(shape, permanent); })};
}

RecipeBounder::TrafficKey RecipeBounder::traffic_key(const OpenRecipe& c) const {
  return {c.mesh, c.sharding, pipeline_of(c).both_ways};
}

// The traffic of all shardings which divide the state in the same way is measured together.
void RecipeBounder::measure_traffic(std::span<const OpenRecipe> recipes) {
  std::map<TrafficKey, std::pair<std::size_t, std::size_t>> places;
  std::vector<MeasuredMeshes::ShardedMesh> asked;
  for (const OpenRecipe& c : recipes) {
    const bool both_ways = pipeline_of(c).both_ways;
    if (traffic_.contains(traffic_key(c)) || places.contains(traffic_key(c))) continue;
    const Recipe& mesh = space_.meshes()[c.mesh];
    const MeasuredMesh& measured = measured_.at(c.mesh);
    asked.push_back({&mesh, {measured.mesh, measured.times}, {}, both_ways, space_.microbatches(mesh)});
    const std::span<const StateSharding> all = space_.shardings(mesh);
    for (std::size_t s = 0; s < all.size(); ++s) {
      if (all[s].any() != all[c.sharding].any() || all[s].group != all[c.sharding].group) continue;
      places[{c.mesh, s, both_ways}] = {asked.size() - 1, asked.back().shardings.size()};
      asked.back().shardings.push_back(all[s]);
    }
  }
  meshes_.measure_traffic(asked);
  for (const auto& [key, at] : places) traffic_.emplace(key, std::move(asked[at.first].traffic[at.second]));
}

// Returns the costs of the copies of the model whose devices differ.
std::vector<DividedCosts> RecipeBounder::divided_copies(std::uint32_t number, const PipelineChoice& pipeline,
                                                        const Recompute& recompute) const {
  const Recipe& mesh = space_.meshes()[number];
  const StageDivision& division = space_.divisions(mesh.pipeline)[pipeline.division];
  std::vector<DividedCosts> copies;
  for (const CopyCosts& copy : measured_.at(number).copies)
    copies.emplace_back(copy, parts_, division, mesh.pipeline, recompute, pipeline.both_ways);
  return copies;
}

std::vector<DividedCosts> RecipeBounder::divided(const OpenRecipe& c) const {
  return divided_copies(c.mesh, pipeline_of(c), space_.recomputes()[c.recompute]);
}

const StepSequence& RecipeBounder::steps_of(const OpenRecipe& c) {
  const Recipe recipe = recipe_of(c);
  return sequences_.of(recipe.schedule_name(), recipe.pipeline, space_.microbatches(recipe), recipe.chunks);
}

Nanoseconds RecipeBounder::time_of_traffic(const OpenRecipe& c) {
  const Recipe& mesh = space_.meshes()[c.mesh];
  const MeshTraffic& traffic = traffic_.at(traffic_key(c));
  const std::vector<DividedCosts> copies = divided(c);
  const ScheduleShape& shape = shape_of(mesh, pipeline_of(c));
  const Nanoseconds held =
      most_of(copies, [&](const DividedCosts& copy) { return copy.time(traffic, shape); });
  if (mesh.pipeline == 1) return held;
  const StepSequence& steps = steps_of(c);
  return std::max(held, most_of(copies, [&](const DividedCosts& copy) {
                    return copy.time_of_steps(steps, traffic, recipe_of(c).gradient_reduction());
                  }));
}

}  // namespace pipesim
