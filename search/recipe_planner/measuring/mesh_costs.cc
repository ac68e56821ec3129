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
  for (std::size_t k = 0; k < kMostRecomputes; ++k) {
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

std::vector<CopyCosts> MeshCosts::copies(std::int64_t times) const {
  if (class_of.empty()) return {CopyCosts{&of_class.front()}};
  constexpr std::size_t kMost = 8;  // any of them give a bound
  std::vector<CopyCosts> distinct;
  for (std::int64_t c = 0; c < times && distinct.size() < kMost; ++c) {
    CopyCosts copy;
    for (std::size_t g = static_cast<std::size_t>(c); g < class_of.size();
         g += static_cast<std::size_t>(times))
      copy.push_back(&of_class[class_of[g]]);
    if (std::ranges::find(distinct, copy) == distinct.end()) distinct.push_back(std::move(copy));
  }
  return distinct;
}

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
    measure_chains(part, costs);
    measure_memory(part, costs);
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
                      DataType gradient_type, const Optimizer& optimizer) {
  Bytes sum;
  for (const PartCosts::Weights& w : part.weights) {
    const std::int64_t copies = times * w.copies;
    const std::int64_t parts = !sharding.any()       ? 1
                               : sharding.group == 0 ? copies
                                                     : std::min<std::int64_t>(copies, sharding.group);
    if (w.frozen_bits > 0) {
      const double elements = sharding.gathers_to_use() ? w.mean_elements / static_cast<double>(parts)
                                                        : static_cast<double>(w.elements);
      sum += Bytes(static_cast<std::int64_t>(elements * w.frozen_bits / 8));
      continue;
    }
    const auto state =
        sharding.any() ? static_cast<std::int64_t>(w.mean_elements / static_cast<double>(parts)) : w.elements;
    WeightShape shape = w.shape;
    shape.type = sharding.kept_type(shape.type);
    const auto bytes = [&](std::int64_t elements) {
      return CostModel::weight_memory(elements, shape, gradient_type, optimizer);
    };
    sum += bytes(sharding.gathers_to_use() ? state : w.elements).weights;
    sum += bytes(sharding.each_microbatch() ? state : w.elements).gradients;
    sum += bytes(state).optimizer_state;
  }
  return sum;
}

// A device's own part may lie among what it gathered. Biases are gathered too, and backward does not read
// them.
Bytes least_gathered(const PartCosts& part, std::int64_t times, const StateSharding& sharding) {
  if (!sharding.keeps_gathered()) return Bytes(0);
  constexpr double kReadByBackward = 0.95;
  double sum = 0;
  for (const PartCosts::Weights& w : part.weights) {
    if (!w.in_backward) continue;
    const std::int64_t copies = times * w.copies;
    const std::int64_t parts = sharding.group == 0 ? copies : std::min<std::int64_t>(copies, sharding.group);
    const double others = static_cast<double>(w.elements) - w.mean_elements / static_cast<double>(parts);
    const double bits =
        w.frozen_bits > 0 ? w.frozen_bits : 8 * static_cast<double>(bytes_per_element(w.shape.type));
    sum += std::max(0.0, others) * bits / 8;
  }
  return Bytes(static_cast<std::int64_t>(kReadByBackward * sum));
}

namespace {

// What a microbatch takes in a part, at least.
struct LeastOfPart {
  Nanoseconds busy = 0, chain = 0, host = 0;
};

// Returns the least of the front, of each layer, and of what is behind the layers.
std::vector<LeastOfPart> least_of_parts(const RecipeMeshCosts& costs, const ModelParts& parts) {
  std::vector<LeastOfPart> made;
  const auto add = [&](const PartCosts& part) {
    Nanoseconds backward = std::numeric_limits<Nanoseconds>::max();
    for (std::size_t k = 0; k < kMostRecomputes; ++k) {
      if (parts.recomputation[k])
        backward = std::min({backward, part.backward.all[k], part.backward.first[k]});
    }
    made.push_back({part.busy_forward + part.busy_input + part.busy_weight,
                    std::min(part.forward, part.forward_first) + backward,
                    part.host_forward + part.host_input + part.host_weight});
  };
  add(costs.front);
  for (const std::size_t number : parts.class_of) add(costs.of_class[number]);
  add(costs.behind);
  return made;
}

// Where parts are divided among groups: a group for which each part takes at least r times what it takes at
// least somewhere has done its share s in r · s, and the shares add up to 1.
double evenly_divided(const std::vector<std::vector<LeastOfPart>>& groups, Nanoseconds LeastOfPart::*figure) {
  const std::size_t parts = groups.front().size();
  std::vector<Nanoseconds> least(parts, std::numeric_limits<Nanoseconds>::max());
  for (const std::vector<LeastOfPart>& group : groups) {
    for (std::size_t p = 0; p < parts; ++p) least[p] = std::min(least[p], group[p].*figure);
  }
  double whole = 0, speeds = 0;
  for (const Nanoseconds part : least) whole += static_cast<double>(part);
  for (const std::vector<LeastOfPart>& group : groups) {
    double slower = std::numeric_limits<double>::infinity();
    for (std::size_t p = 0; p < parts; ++p) {
      if (least[p] > 0)
        slower = std::min(slower, static_cast<double>(group[p].*figure) / static_cast<double>(least[p]));
    }
    speeds += 1 / slower;
  }
  return whole == 0 ? 0 : whole / speeds;
}

}  // namespace

Nanoseconds least_time(const CopyCosts& copy, const ModelParts& parts, std::int64_t groups,
                       std::int64_t microbatches) {
  std::vector<std::vector<LeastOfPart>> of_group;
  for (const RecipeMeshCosts* costs : copy) of_group.push_back(least_of_parts(*costs, parts));
  const auto share = [&](Nanoseconds LeastOfPart::*figure) {
    return evenly_divided(of_group, figure) * static_cast<double>(copy.size()) / static_cast<double>(groups);
  };
  // Two steps beside each other have their chains, and hosts, at the same time.
  const double beside = groups > 1 ? 2 : 1;
  const double step = 2.0 * static_cast<double>(copy.front()->host_step) / static_cast<double>(groups);
  const double each = std::max({share(&LeastOfPart::busy), share(&LeastOfPart::chain) / beside,
                                (share(&LeastOfPart::host) + step) / beside});
  return microbatches * static_cast<Nanoseconds>(each);
}

}  // namespace pipesim
