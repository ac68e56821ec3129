#include "search/recipe_planner/measuring/mesh_costs.h"

#include <algorithm>
#include <limits>
#include <map>
#include <set>
#include <utility>

#include "search/recipe_planner/measuring/part_busy.h"
#include "search/recipe_planner/measuring/part_chains.h"
#include "search/recipe_planner/measuring/part_memory.h"
#include "search/recipe_planner/measuring/part_traffic.h"

namespace pipesim {
namespace {

void lower(PartCosts& costs, const PartCosts& other) {
  const auto lower_to = [](auto& a, const auto& b) { a = std::min(a, b); };
  lower_to(costs.forward, other.forward);
  lower_to(costs.forward_first, other.forward_first);
  lower_to(costs.busy_forward, other.busy_forward);
  lower_to(costs.busy_input, other.busy_input);
  lower_to(costs.busy_weight, other.busy_weight);
  lower_to(costs.kept_for_weights, other.kept_for_weights);
  for (std::size_t k = 0; k < kNumRecomputes; ++k) {
    lower_to(costs.backward.all[k], other.backward.all[k]);
    lower_to(costs.backward.first[k], other.backward.first[k]);
    lower_to(costs.whole_backward.all[k], other.whole_backward.all[k]);
    lower_to(costs.whole_backward.first[k], other.whole_backward.first[k]);
    lower_to(costs.busy_again[k], other.busy_again[k]);
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

MeshTraffic MeshMeter::traffic(const Recipe& mesh, const StateSharding& sharding, std::int64_t microbatches,
                               const std::vector<std::int64_t>& groups) {
  std::vector<std::int64_t> layers_of_class(parts_.representative.size(), 0);
  for (const std::size_t number : parts_.class_of) ++layers_of_class[number];
  MeshTraffic least_of_all;
  for (std::size_t g = 0; g < groups.size(); ++g) {
    tables_->begin(mesh, groups[g]);
    const auto loads_of = [&](const ModelPart& part) {
      return lane_loads(PartOnMesh(part, parts_, *tables_), sharding);
    };
    const LaneLoads front = loads_of(parts_.front), behind = loads_of(parts_.behind);
    std::vector<LaneLoads> of_class;
    for (std::size_t c = 0; c < layers_of_class.size(); ++c) of_class.push_back(loads_of(parts_.of_class(c)));
    // One lane for all parts: that which all layers hold longest.
    const auto busiest = [&](auto held_by) {
      std::size_t lane = tables_->topology().num_devices();
      Nanoseconds longest = -1;
      for (std::size_t l = lane; l < tables_->topology().num_lanes(); ++l) {
        Nanoseconds held = 0;
        for (std::size_t c = 0; c < of_class.size(); ++c)
          held += layers_of_class[c] * held_by(of_class[c], l);
        if (held > longest) longest = held, lane = l;
      }
      return lane;
    };
    const std::size_t in_all = busiest([&](const LaneLoads& loads, std::size_t lane) {
      return microbatches * loads.each[lane] + loads.once[lane];
    });
    const std::size_t at_end =
        busiest([](const LaneLoads& loads, std::size_t lane) { return loads.at_end[lane]; });
    const bool any = tables_->topology().num_lanes() > tables_->topology().num_devices();
    const auto on_lane = [&](const LaneLoads& loads) {
      return any ? PartTraffic{loads.each[in_all], loads.once[in_all], loads.at_end[at_end]} : PartTraffic();
    };
    MeshTraffic made{on_lane(front), on_lane(behind), {}};
    for (const LaneLoads& loads : of_class) made.of_class.push_back(on_lane(loads));
    const auto lower_to = [](PartTraffic& a, const PartTraffic& b) {
      a = {std::min(a.each, b.each), std::min(a.once, b.once), std::min(a.at_end, b.at_end)};
    };
    if (g == 0) least_of_all = made;
    lower_to(least_of_all.front, made.front);
    lower_to(least_of_all.behind, made.behind);
    for (std::size_t c = 0; c < of_class.size(); ++c) lower_to(least_of_all.of_class[c], made.of_class[c]);
  }
  return least_of_all;
}

std::vector<std::int64_t> distinct_groups(std::int64_t groups, const Topology& topology) {
  const auto size = topology.num_devices() / static_cast<std::size_t>(groups);
  // Lanes are numbered as routes meet them.
  const auto shape_of = [&](std::int64_t group) {
    std::vector<double> shape;
    std::map<LaneId, std::size_t> lanes;
    const std::size_t first = static_cast<std::size_t>(group) * size;
    for (std::size_t i = 0; i < size; ++i) {
      shape.push_back(topology.device(DeviceId(first + i)).kind);
      for (std::size_t j = 0; j < size; ++j) {
        if (i == j) continue;
        const DeviceId from(first + i), to(first + j);
        const Route route = topology.route(from, to);
        shape.push_back(topology.distance(from, to));
        shape.push_back(route.latency.value);
        for (const LaneId lane : route.lanes) {
          shape.push_back(static_cast<double>(lanes.try_emplace(lane, lanes.size()).first->second));
          shape.push_back(topology.lane_bandwidth(lane).value);
        }
      }
    }
    return shape;
  };
  std::vector<std::int64_t> distinct{0};
  if (groups == 1) return distinct;
  std::set<std::vector<double>> shapes{shape_of(0)};
  for (std::int64_t g = 1; g < groups; ++g) {
    if (shapes.insert(shape_of(g)).second) distinct.push_back(g);
  }
  return distinct;
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
  Nanoseconds busy = 0, chain = 0;
  const auto add = [&](const PartCosts& part, std::int64_t number) {
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
  if (groups > 1) chain /= 2;  // two steps beside each other have their chains at the same time
  return microbatches * (std::max(busy, chain) / groups);
}

}  // namespace pipesim
