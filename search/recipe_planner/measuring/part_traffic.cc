#include "search/recipe_planner/measuring/part_traffic.h"

#include <algorithm>
#include <set>
#include <span>

#include "sim/base/deadline.h"

namespace pipesim {
namespace {

class LaneSums {
 public:
  explicit LaneSums(const Topology& topology) : held_(topology.num_lanes(), 0) {}
  void add(std::span<const LaneUse> loads, double share = 1) {
    for (const LaneUse& load : loads)
      held_[load.lane.index()] +=
          share == 1 ? load.hold : static_cast<Nanoseconds>(static_cast<double>(load.hold) * share);
  }
  [[nodiscard]] HeldLanes lanes() const {
    HeldLanes lanes;
    for (std::size_t l = 0; l < held_.size(); ++l) {
      if (held_[l] > 0) lanes.emplace_back(l, held_[l]);
    }
    return lanes;
  }

 private:
  std::vector<Nanoseconds> held_;  // by lane
};

class PartTransfers : private PartOnMesh {
 public:
  explicit PartTransfers(const PartOnMesh& part) : PartOnMesh(part) {}

  [[nodiscard]] HeldLanes held() const {
    LaneSums sums(tables_.topology());
    for (const OperatorId op : part_.operators) {
      stop_if_late();
      for (std::size_t u = 0; u < tables_[op].op->uses.size(); ++u) {
        if (tables_[op].op->uses[u].role == Role::Output)
          add_transfers({op, static_cast<std::int32_t>(u)}, sums);
      }
    }
    return sums.lanes();
  }

  void add_places(PlacesByWeight& places) const {
    for (const OperatorId op : part_.operators) {
      for (const TensorId weight : tables_.backward().owned_weights(op)) {
        const auto [needed, alone] = reader_layouts(weight);
        if (!alone) continue;
        WeightPlaces& at = places[weight];
        for (const LayoutId layout : needed) add_distinct(at.needed, layout);
        for (const LayoutId layout : gradient_terms(weight)) add_distinct(at.gradients, layout);
      }
    }
  }

 private:
  void add(const CommunicationPlan& plan, LaneSums& sums) const { sums.add(plan.loads, least_share(plan)); }

  // To readers in the part, each layout once, and back.
  void add_transfers(UseRef maker, LaneSums& sums) const {
    const TensorId tensor = tensor_of(maker);
    std::set<LayoutId> targets;
    for (const UseRef use : graph_.consumers(tensor)) {
      if (is_inside(use.op) && targets.insert(data_layout(use, tables_.strategy())).second)
        add(forward_plan(use), sums);
    }
    if (has_whole_gradient(tensor)) add(gradient_plan(tensor), sums);
  }
};

}  // namespace

HeldLanes held_by_transfers(const PartOnMesh& part) { return PartTransfers(part).held(); }

void add_weight_places(const PartOnMesh& part, PlacesByWeight& places) {
  PartTransfers(part).add_places(places);
}

HeldByWeights held_by_weights(const PlacesByWeight& places, const StateSharding& sharding,
                              MeshTables& tables) {
  constexpr std::int64_t kSmall = 500;  // the largest has so many times the elements
  const PlanOptions& options = tables.options();
  const auto elements_of = [&](TensorId weight) { return tables.graph().tensor(weight).elements(); };
  std::int64_t largest = 0;
  for (const auto& [weight, at] : places) largest = std::max(largest, elements_of(weight));
  LaneSums whole(tables.topology()), divided(tables.topology()), gather(tables.topology()),
      summed(tables.topology()), broadcast(tables.topology());
  for (const auto& [weight, at] : places) {
    stop_if_late();
    if (elements_of(weight) < largest / kSmall) continue;
    const LayoutId home = tables.plans().home(at.needed);
    const LayoutId state =
        sharding.any() ? tables.plans().divided_home(home, at.gradients, sharding.group) : home;
    (state == home ? whole : divided)
        .add(tables.loads(at.gradients, state, options.gradient_type, options.gradient_piece));
    if (state == home) continue;
    const DataType type = sharding.gather_type(tables.graph().tensor(weight).type);
    gather.add(tables.loads(LayoutIds{state}, home, type, kWholePiece));
    if (tables.runtime().broadcasts_weights)
      broadcast.add(tables.loads(LayoutIds{state}, home, type, kWholePiece, GatherBy::Broadcast));
    if (tables.runtime().sums_whole)
      summed.add(tables.loads(at.gradients, home, options.gradient_type, options.gradient_piece));
  }
  return {whole.lanes(), divided.lanes(), gather.lanes(), summed.lanes(), broadcast.lanes()};
}

}  // namespace pipesim
