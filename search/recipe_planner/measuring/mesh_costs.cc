#include "search/recipe_planner/measuring/mesh_costs.h"

#include <algorithm>
#include <limits>
#include <optional>
#include <utility>

#include "search/recipe_planner/measuring/moments.h"
#include "search/recipe_planner/measuring/part_busy.h"
#include "search/recipe_planner/measuring/part_chains.h"
#include "search/recipe_planner/measuring/part_memory.h"

namespace pipesim {
namespace {

void lower(PartCosts& costs, const PartCosts& other) {
  const auto lower_to = [](auto& a, const auto& b) { a = std::min(a, b); };
  lower_to(costs.forward, other.forward);
  lower_to(costs.forward_first, other.forward_first);
  lower_to(costs.busy_forward, other.busy_forward);
  lower_to(costs.busy_input, other.busy_input);
  lower_to(costs.busy_weight, other.busy_weight);
  lower_to(costs.host_forward, other.host_forward);
  lower_to(costs.host_input, other.host_input);
  lower_to(costs.host_weight, other.host_weight);
  lower_to(costs.kept_for_weights, other.kept_for_weights);
  for (std::size_t k = 0; k < kNumRecomputes; ++k) {
    lower_to(costs.backward.all[k], other.backward.all[k]);
    lower_to(costs.backward.first[k], other.backward.first[k]);
    lower_to(costs.whole_backward.all[k], other.whole_backward.all[k]);
    lower_to(costs.whole_backward.first[k], other.whole_backward.first[k]);
    lower_to(costs.busy_again[k], other.busy_again[k]);
    lower_to(costs.host_again[k], other.host_again[k]);
    lower_to(costs.kept[k], other.kept[k]);
    lower_to(costs.kept_entry[k], other.kept_entry[k]);
    lower_to(costs.made_again[k], other.made_again[k]);
  }
}

}  // namespace

FewestCopies with_fewest_copies(const Recipe& mesh) {
  FewestCopies fewest{mesh, 1};
  const std::int64_t copy = mesh.tensor * mesh.context;
  const std::int64_t experts = mesh.divides_experts() ? mesh.expert * mesh.expert_tensor_degree() : 1;
  for (std::int64_t data = 1; data < mesh.data; ++data) {
    if (mesh.data % data != 0 || copy * data % experts != 0) continue;
    fewest.times = mesh.data / data;
    fewest.mesh.data = data;
    fewest.mesh.pipeline *= fewest.times;
    break;
  }
  return fewest;
}

MeshMeter::MeshMeter(const RecipeModel& model, const ModelParts& parts, const CostModel& costs,
                     PlanOptions options)
    : tables_(std::make_unique<MeshTables>(model, costs, std::move(options))), parts_(parts) {}

MeshMeter::~MeshMeter() = default;

Bytes MeshMeter::bytes() const { return tables_->bytes(); }
void MeshMeter::forget() { tables_->forget(); }

// `measure`: adds to the costs of a part.
template <class Measure>
RecipeMeshCosts MeshMeter::least_of_groups(const Recipe& mesh, const std::vector<std::int64_t>& groups,
                                           Measure measure) {
  RecipeMeshCosts made;
  made.host_step = least_host_time(tables_->runtime().host.step);
  made.of_class.resize(parts_.representative.size());
  for (std::size_t g = 0; g < groups.size(); ++g) {
    tables_->begin(mesh, groups[g]);
    const auto measure_part = [&](const ModelPart& part, PartCosts& into) {
      PartCosts measured;
      const PartOnMesh on_mesh(part, parts_, *tables_);
      if (!on_mesh.empty()) measure(on_mesh, measured);
      if (g == 0) into = measured;
      lower(into, measured);
    };
    measure_part(parts_.front, made.front);
    for (std::size_t c = 0; c < made.of_class.size(); ++c) measure_part(parts_.of_class(c), made.of_class[c]);
    measure_part(parts_.behind, made.behind);
  }
  return made;
}

RecipeMeshCosts MeshMeter::costs(const Recipe& mesh, const std::vector<std::int64_t>& groups) {
  return least_of_groups(mesh, groups, [&](const PartOnMesh& part, PartCosts& costs) {
    measure_busy(part, costs);
    measure_chains(part, mesh.gathered_inputs(), costs);
    measure_memory(part, mesh.gathered_inputs(), costs);
  });
}

RecipeMeshCosts MeshMeter::busy(const Recipe& mesh, const std::vector<std::int64_t>& groups) {
  return least_of_groups(mesh, groups, measure_busy);
}

// Front, behind, and each class.
template <class Visit>
void MeshMeter::for_each_part(Visit visit) const {
  visit(parts_.front);
  visit(parts_.behind);
  for (std::size_t c = 0; c < parts_.representative.size(); ++c) visit(parts_.of_class(c));
}

HeldByParts MeshMeter::transfers(const Recipe& mesh, std::int64_t group) {
  tables_->begin(mesh, group);
  HeldByParts held;
  for_each_part(
      [&](const ModelPart& part) { held.push_back(held_by_transfers(PartOnMesh(part, parts_, *tables_))); });
  return held;
}

StageTransfer MeshMeter::stage_transfer(const Recipe& mesh, std::int64_t group, std::int64_t other) {
  tables_->begin(mesh, group);
  return measure_stage_transfer(parts_, group, other, *tables_);
}

HeldByPartsWeights MeshMeter::weights(const Recipe& mesh, const StateSharding& sharding, std::int64_t group,
                                      bool both_ways) {
  tables_->begin(mesh, group);
  std::vector<PlacesByWeight> places(2 + parts_.representative.size());
  const auto add_places = [&] {
    std::size_t number = 0;
    for_each_part([&](const ModelPart& part) {
      add_weight_places(PartOnMesh(part, parts_, *tables_, PartOnMesh::Bound::ReadersOfWeights),
                        places[number++]);
    });
  };
  add_places();
  if (both_ways) {
    tables_->go_to(mesh.pipeline - 1 - group);
    add_places();
  }
  HeldByPartsWeights held;
  for (const PlacesByWeight& of_part : places) held.push_back(held_by_weights(of_part, sharding, *tables_));
  return held;
}

Bytes least_permanent(const PartCosts& part, std::int64_t times, const StateSharding& sharding,
                      DataType gradient_type, Optimizer optimizer) {
  Bytes sum;
  for (const PartCosts::Weights& w : part.weights) {
    const std::int64_t copies = times * w.copies;
    const std::int64_t parts = !sharding.any()       ? 1
                               : sharding.group == 0 ? copies
                                                     : std::min<std::int64_t>(copies, sharding.group);
    const auto state =
        sharding.any() ? static_cast<std::int64_t>(w.mean_elements / static_cast<double>(parts)) : w.elements;
    const auto bytes = [&](std::int64_t elements) {
      return CostModel::weight_memory(elements, sharding.kept_type(w.type), gradient_type, optimizer);
    };
    sum += bytes(sharding.gathers_to_use() ? state : w.elements).weights;
    sum += bytes(sharding.each_microbatch() ? state : w.elements).gradients;
    sum += bytes(state).optimizer_state;
  }
  return sum;
}

Nanoseconds least_time(const RecipeMeshCosts& costs, const ModelParts& parts, std::int64_t groups,
                       std::int64_t microbatches) {
  Nanoseconds busy = 0, chain = 0, host = 2 * costs.host_step;
  const auto add = [&](const PartCosts& part, std::int64_t number) {
    host += number * (part.host_forward + part.host_input + part.host_weight);
    busy += number * (part.busy_forward + part.busy_input + part.busy_weight);
    Nanoseconds backward = std::numeric_limits<Nanoseconds>::max();
    for (std::size_t k = 0; k < kNumRecomputes; ++k) {
      if (parts.recomputation[k])
        backward = std::min({backward, part.backward.all[k], part.backward.first[k]});
    }
    chain += number * (std::min(part.forward, part.forward_first) + backward);
  };
  add(costs.front, 1);
  for (const std::size_t number : parts.class_of) add(costs.of_class[number], 1);
  add(costs.behind, 1);
  if (groups > 1) chain /= 2, host /= 2;  // two steps beside each other have theirs at the same time
  return microbatches * (std::max({busy, chain, host}) / groups);
}

}  // namespace pipesim
