#include "search/recipe_planner/part_memory.h"

#include <algorithm>
#include <map>
#include <set>

namespace pipesim {
namespace {

class PartMemory : private PartOnMesh {
 public:
  PartMemory(const PartOnMesh& part, GatheredInputs gathered) : PartOnMesh(part), gathered_(gathered) {}

  void measure(PartCosts& costs) {
    for (std::size_t k = 0; k < kNumRecomputes; ++k) {
      if (parts_.recomputation[k]) measure_kept(k, costs);
    }
    measure_weights(costs);
  }

 private:
  // Sums are as large as their addends; what is gathered is more than a device's own part.
  [[nodiscard]] bool is_gathered(UseRef use, const CommunicationPlan& plan) {
    const TensorId tensor = tensor_of(use);
    const UseRef maker = tables_.backward().producing_use(tensor);
    const Layout& held = tables_.layouts()[data_layout(maker, tables_.strategy())];
    const Layout& got = tables_.layouts()[plan.target];
    return held.num_addends() == 1 && std::ranges::all_of(got.entries(), [&](const LayoutEntry& e) {
             const std::int64_t before = held.elements_on(e.device);
             return before > 0 && before < got.elements_on(e.device);
           });
  }

  // A reader for whom the tensor is still there when backward begins.
  [[nodiscard]] bool is_kept_for(std::size_t kind, UseRef use) const {
    const TensorUse& read = graph_.op(use.op).uses[static_cast<std::size_t>(use.use)];
    const BackwardNeed& need = tables_.backward().need(use.op);
    const bool saved = read.saved && (need.input_pass || need.weight_pass);
    return (saved || again(kind, use.op)) &&
           !(recomputation(kind).any() && recomputation(kind).reads_again(use));
  }

  // What a device keeps, and of this what it keeps until weights have their gradients.
  struct KeptBytes {
    std::map<DeviceId, Bytes> all, for_weights;
    void add(const KeptBytes& other) {
      for (const auto& [d, bytes] : other.all) all[d] += bytes;
      for (const auto& [d, bytes] : other.for_weights) for_weights[d] += bytes;
    }
    [[nodiscard]] static Bytes least_of(const std::map<DeviceId, Bytes>& bytes) {
      Bytes fewest = bytes.begin()->second;
      for (const auto& [d, b] : bytes) fewest = std::min(fewest, b);
      return fewest;
    }
  };

  // Of the tensor for readers in the part: the device's own piece, or what arrived. `own_kept`: for its
  // maker.
  [[nodiscard]] KeptBytes kept_of(std::size_t kind, TensorId tensor, bool own_kept) {
    const UseRef maker = tables_.backward().producing_use(tensor);
    const Layout& made = tables_.layouts()[data_layout(maker, tables_.strategy())];
    const std::int64_t element = bytes_per_element(graph_.tensor(tensor).type);
    KeptBytes own, arrived;
    const auto keep_own = [&](DeviceId d, bool for_weights) {
      const Bytes bytes(made.elements_on(d) * element);
      own.all[d] = bytes;
      if (for_weights) own.for_weights[d] = bytes;
    };
    if (own_kept) {
      for (const DeviceId d : tables_[maker.op].config.devices)
        keep_own(d, tables_.backward().need(maker.op).weight_pass);
    }
    std::set<LayoutId> targets;
    for (const UseRef use : graph_.consumers(tensor)) {
      if (!is_inside(use.op) || !is_kept_for(kind, use)) continue;
      const TensorUse& read = graph_.op(use.op).uses[static_cast<std::size_t>(use.use)];
      const bool for_weights = read.saved && tables_.backward().need(use.op).weight_pass;
      const CommunicationPlan& plan = forward_plan(use);
      for (const DeviceId d : plan.local) keep_own(d, for_weights);
      if (plan.tasks.empty() || !targets.insert(plan.target).second) continue;
      const bool again_moved = gathered_ == GatheredInputs::Again && is_gathered(use, plan);
      for (const auto& [d, bytes] : plan.received) {
        if (again_moved) {  // the own part, or, where nothing behind is awaited, all that arrived
          keep_own(d, false);
        } else {
          arrived.all[d] += bytes;
          if (for_weights) arrived.for_weights[d] += bytes;
        }
      }
    }
    own.add(arrived);
    return own;
  }

  void measure_kept(std::size_t kind, PartCosts& costs) {
    KeptBytes kept, of_entry;
    for (const DeviceId d : tables_[part_.operators.front()].config.devices)
      kept.all[d], kept.for_weights[d], of_entry.all[d];
    for (const OperatorId op : part_.operators) {
      const BoundOperator& bound = tables_[op];
      const BackwardNeed& need = tables_.backward().need(op);
      const bool backward = need.input_pass || need.weight_pass;
      for (const TensorUse& use : bound.op->uses) {
        if (use.role == Role::Output)
          kept.add(kept_of(kind, use.tensor, use.saved && !again(kind, op) && backward));
      }
      if (again(kind, op) || !backward) continue;
      for (std::size_t k = 0; k < bound.memory.size(); ++k) {
        kept.all[bound.config.devices[k]] += bound.memory[k].saved;
        if (need.weight_pass) kept.for_weights[bound.config.devices[k]] += bound.memory[k].saved;
      }
    }
    if (part_.entry) of_entry.add(kept_of(kind, *part_.entry, false));
    costs.kept[kind] = KeptBytes::least_of(kept.all);
    costs.kept_for_weights[kind] = KeptBytes::least_of(kept.for_weights);
    costs.kept_entry[kind] = KeptBytes::least_of(of_entry.all);
  }

  // Weights that another part uses too may have copies there.
  void measure_weights(PartCosts& costs) {
    for (const OperatorId op : part_.operators) {
      for (const TensorId weight : tables_.backward().owned_weights(op)) {
        const auto [needed, alone] = reader_layouts(weight);
        const Layout& home = tables_.layouts()[tables_.plans().home(needed)];
        PartCosts::Weights held{INT64_MAX, 0, 1, graph_.tensor(weight).type};
        std::map<std::int32_t, std::int64_t> holders;  // by box
        std::int64_t sum = 0;
        for (const LayoutEntry& e : home.entries()) {
          sum += home.box(e).elements();
          held.copies = std::max(held.copies, ++holders[e.box]);
        }
        const std::vector<DeviceId>& devices = tables_[op].config.devices;
        for (const DeviceId d : devices) held.elements = std::min(held.elements, home.elements_on(d));
        held.mean_elements = static_cast<double>(sum) / static_cast<double>(devices.size());
        if (!alone) held.copies = INT32_MAX;
        costs.weights.push_back(held);
      }
    }
  }

  GatheredInputs gathered_;
};

}  // namespace

void measure_memory(const PartOnMesh& part, GatheredInputs gathered, PartCosts& costs) {
  PartMemory(part, gathered).measure(costs);
}

}  // namespace pipesim
