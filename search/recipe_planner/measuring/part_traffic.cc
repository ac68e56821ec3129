#include "search/recipe_planner/measuring/part_traffic.h"

#include <set>

#include "sim/base/deadline.h"

namespace pipesim {
namespace {

class PartTransfers : private PartOnMesh {
 public:
  explicit PartTransfers(const PartOnMesh& part) : PartOnMesh(part) {}

  LaneLoads loads(const StateSharding& sharding) {
    const std::size_t lanes = tables_.topology().num_lanes();
    const std::vector<Nanoseconds> none(lanes, 0);
    LaneLoads loads{none, none, none};
    for (const OperatorId op : part_.operators) {
      stop_if_late();
      for (std::size_t u = 0; u < tables_[op].op->uses.size(); ++u) {
        const UseRef use{op, static_cast<std::int32_t>(u)};
        if (tables_[op].op->uses[u].role == Role::Output) add_transfers(use, loads.each);
      }
      for (const TensorId weight : tables_.backward().owned_weights(op)) add_weight(weight, sharding, loads);
    }
    return loads;
  }

 private:
  static void add(const CommunicationPlan& plan, std::int64_t times, std::vector<Nanoseconds>& lanes) {
    for (const LaneUse& load : plan.loads) lanes[load.lane.index()] += times * load.hold;
  }

  // To readers in the part, each layout once, and back.
  void add_transfers(UseRef maker, std::vector<Nanoseconds>& lanes) {
    const TensorId tensor = tensor_of(maker);
    std::set<LayoutId> targets;
    for (const UseRef use : graph_.consumers(tensor)) {
      if (!is_inside(use.op) || !targets.insert(data_layout(use, tables_.strategy())).second) continue;
      add(forward_plan(use), 1, lanes);
    }
    if (!has_whole_gradient(tensor)) return;
    add(tables_.plan(tensor, gradient_terms(tensor), gradient_layout(maker, tables_.strategy())), 1, lanes);
  }

  void add_weight(TensorId weight, const StateSharding& sharding, LaneLoads& loads) {
    const auto [needed, alone] = reader_layouts(weight);
    if (!alone) return;
    const LayoutIds terms = gradient_terms(weight);
    const LayoutId home = tables_.plans().home(needed);
    const LayoutId state = sharding.any() ? tables_.plans().divided_home(home, terms, sharding.group) : home;
    const bool divided = state != home;
    const PlanOptions& options = tables_.options();
    const CommunicationPlan& sync = tables_.plans().between(
        terms, state, {bytes_per_element(options.gradient_type), options.gradient_piece});
    add(sync, 1, sharding.each_microbatch() && divided ? loads.each : loads.once);
    add(sync, 1, loads.at_end);
    if (!divided) return;
    const CommunicationPlan& gather = tables_.plans().between(
        LayoutIds{state}, home,
        {bytes_per_element(sharding.gather_type(graph_.tensor(weight).type)), kWholePiece});
    if (sharding.gathers_to_use()) {
      add(gather, sharding.keep_gathered ? 1 : 2, loads.each);
    } else {
      add(gather, 1, loads.once);
      if (!sharding.gathers_before_use()) add(gather, 1, loads.at_end);
    }
  }
};

}  // namespace

LaneLoads lane_loads(const PartOnMesh& part, const StateSharding& sharding) {
  return PartTransfers(part).loads(sharding);
}

}  // namespace pipesim
