#include "search/recipe_planner/measuring/part_traffic.h"

#include <algorithm>
#include <limits>
#include <set>
#include <span>

#include "sim/base/deadline.h"

namespace pipesim {
namespace {

class LaneSums {
 public:
  explicit LaneSums(const Topology& topology) : held_(topology.num_lanes(), 0) {}
  void add(std::span<const LaneUse> loads, double times = 1) {
    for (const LaneUse& load : loads)
      held_[load.lane.index()] +=
          times == 1 ? load.hold : static_cast<Nanoseconds>(static_cast<double>(load.hold) * times);
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

// Weights that move alike, as keys and values of a layer do: in the same parts between the same devices.
struct AlikeWeights {
  LayoutId home, state;
  LayoutIds gradients;
  DataType type = DataType::Float32;
  std::int64_t count = 0;
  bool frozen = false, in_backward = true;
  double packed = 1;  // part of the bytes of their type that they take
};

bool has_backward(const BackwardNeed& need) { return need.input_pass || need.weight_pass; }

// Those that are small beside the others are left out, frozen ones and trained ones by themselves.
std::vector<AlikeWeights> alike_weights(const PlacesByWeight& places, const StateSharding& sharding,
                                        MeshTables& tables) {
  constexpr std::int64_t kSmall = 500;  // the largest has so many times the elements
  const auto of = [&](TensorId weight) -> const Tensor& { return tables.graph().tensor(weight); };
  std::int64_t largest = 0, largest_frozen = 0;
  for (const auto& [weight, at] : places) {
    std::int64_t& most = of(weight).frozen ? largest_frozen : largest;
    most = std::max(most, of(weight).elements());
  }
  std::vector<AlikeWeights> all;
  for (const auto& [weight, at] : places) {
    const Tensor& tensor = of(weight);
    if (tensor.elements() < (tensor.frozen ? largest_frozen : largest) / kSmall) continue;
    const LayoutId home = tables.plans().home(at.needed);
    const LayoutId state =
        sharding.any() ? tables.plans().divided_home(home, at.gradients, sharding.group) : home;
    AlikeWeights one{home, state, at.gradients, tensor.type, 1, tensor.frozen};
    if (tensor.frozen) {
      one.packed = tensor.stored_bits() / static_cast<double>(8 * bytes_per_element(tensor.type));
      one.in_backward = std::ranges::any_of(tables.graph().consumers(weight), [&](UseRef use) {
        return has_backward(tables.backward().need(use.op));
      });
    }
    const auto known = std::ranges::find_if(all, [&](const AlikeWeights& w) {
      return w.home == one.home && w.state == one.state && w.gradients == one.gradients &&
             w.type == one.type && w.frozen == one.frozen && w.in_backward == one.in_backward &&
             w.packed == one.packed;
    });
    if (known != all.end()) {
      ++known->count;
    } else {
      all.push_back(one);
    }
  }
  return all;
}

// What collectives take from the compute of their devices: as when they are made, but that what each takes is
// rounded down, and not what all of a layer do.
class ComputeLosses {
 public:
  ComputeLosses(const Topology& topology, double share) : share_(share), lost_(topology.num_devices(), 0) {}

  // To be called with what loads() visits, of `weights` that are alike.
  [[nodiscard]] CollectiveVisit visit(std::int64_t weights) {
    if (share_ == 0) return {};
    return [this, weights](std::span<const DeviceId> group, Nanoseconds moving, std::int64_t times) {
      add(group, moving, weights * times);
    };
  }
  [[nodiscard]] Nanoseconds least(const std::vector<bool>& devices) const {
    Nanoseconds least = std::numeric_limits<Nanoseconds>::max();
    for (std::size_t d = 0; d < devices.size(); ++d) {
      if (devices[d]) least = std::min(least, lost_[d]);
    }
    return least == std::numeric_limits<Nanoseconds>::max() ? 0 : least;
  }

 private:
  void add(std::span<const DeviceId> group, Nanoseconds moving, std::int64_t times) {
    once_.assign(group.begin(), group.end());
    std::ranges::sort(once_);
    once_.erase(std::unique(once_.begin(), once_.end()), once_.end());
    const Nanoseconds lost = times * static_cast<Nanoseconds>(static_cast<double>(moving) * share_);
    for (const DeviceId device : once_) lost_[device.index()] += lost;
  }

  double share_;
  std::vector<Nanoseconds> lost_;  // by device
  std::vector<DeviceId> once_;
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
      for (const TensorId weight : tables_.backward().frozen_weights(op)) {
        const auto [needed, alone] = reader_layouts(weight);
        if (!alone) continue;
        WeightPlaces& at = places[weight];
        for (const LayoutId layout : needed) add_distinct(at.needed, layout);
        for (const UseRef use : graph_.consumers(weight))
          add_distinct(at.gradients, gradient_layout(use, tables_.strategy()));
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
  const PlanOptions& options = tables.options();
  // A device that holds a part of one weight of a part of the model holds a part of all: operators run on
  // all devices of the group.
  std::vector<bool> holders(tables.topology().num_devices(), false);
  struct Sums {
    LaneSums lanes;
    ComputeLosses lost;
  };
  const Sums none{LaneSums(tables.topology()),
                  ComputeLosses(tables.topology(), tables.runtime().interference)};
  Sums whole = none, divided = none, gather = none, summed = none, broadcast = none;
  LaneSums frozen(tables.topology()), frozen_once(tables.topology());
  for (const AlikeWeights& w : alike_weights(places, sharding, tables)) {
    stop_if_late();
    const auto times = static_cast<double>(w.count);
    const auto reduce = [&](LayoutId target, Sums& sums) {
      sums.lanes.add(tables.loads(w.gradients, target, options.gradient_type, options.gradient_piece,
                                  GatherBy::AllGather, sums.lost.visit(w.count)),
                     times);
    };
    for (const LayoutEntry& e : tables.layouts()[w.home].entries()) holders[e.device.index()] = true;
    if (w.frozen) {
      if (w.state != w.home)
        (w.in_backward ? frozen : frozen_once)
            .add(tables.loads(LayoutIds{w.state}, w.home, w.type, kWholePiece), times * w.packed);
      continue;
    }
    reduce(w.state, w.state == w.home ? whole : divided);
    if (w.state == w.home) continue;
    const DataType type = sharding.gather_type(w.type);
    const auto gather_by = [&](GatherBy way, Sums& sums) {
      sums.lanes.add(
          tables.loads(LayoutIds{w.state}, w.home, type, kWholePiece, way, sums.lost.visit(w.count)), times);
    };
    gather_by(GatherBy::AllGather, gather);
    if (tables.runtime().broadcasts_weights) gather_by(GatherBy::Broadcast, broadcast);
    if (tables.runtime().sums_whole) reduce(w.home, summed);
  }
  return {whole.lanes.lanes(),
          divided.lanes.lanes(),
          gather.lanes.lanes(),
          frozen.lanes(),
          frozen_once.lanes(),
          summed.lanes.lanes(),
          broadcast.lanes.lanes(),
          {whole.lost.least(holders), divided.lost.least(holders), gather.lost.least(holders),
           summed.lost.least(holders)}};
}

}  // namespace pipesim
