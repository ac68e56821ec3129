#include "search/recipe_planner/measuring/part_memory.h"

#include <algorithm>
#include <map>
#include <set>

namespace pipesim {
namespace {

class PartMemory : private PartOnMesh {
 public:
  explicit PartMemory(const PartOnMesh& part) : PartOnMesh(part) {}

  void measure(PartCosts& costs) {
    for (std::size_t k = 0; k < kMostRecomputes; ++k) {
      if (!parts_.recomputation[k]) continue;
      measure_kept(k, costs);
      costs.made_again[k] = made_again(k);
    }
    measure_kept_for_weights(costs);
    measure_weights(costs);
  }

 private:
  [[nodiscard]] bool has_backward(OperatorId op) const {
    const BackwardNeed& need = tables_.backward().need(op);
    return need.input_pass || need.weight_pass;
  }
  [[nodiscard]] bool is_saved_for(UseRef use) const {
    return graph_.op(use.op).uses[static_cast<std::size_t>(use.use)].saved && has_backward(use.op);
  }
  [[nodiscard]] bool may_copy(UseRef use) const {
    return graph_.op(use.op).uses[static_cast<std::size_t>(use.use)].saved_as.has_value();
  }
  [[nodiscard]] bool reads_again(std::size_t kind, UseRef use) const {
    return recomputation(kind).any() && recomputation(kind).reads_again(use);
  }
  // Whether the operator runs again wherever the stage ends: what comes behind the part may be in another
  // stage, for which nothing is made again.
  [[nodiscard]] bool again_for_part(std::size_t kind, OperatorId op) const {
    if (!again(kind, op)) return false;
    if (has_backward(op) && !graph_.op(op).saved_extra_bytes.empty()) return true;
    return std::ranges::any_of(graph_.op(op).uses, [&](const TensorUse& use) {
      if (use.role != Role::Output) return false;
      return (use.saved && has_backward(op)) ||
             std::ranges::any_of(graph_.consumers(use.tensor), [&](UseRef read) {
               return is_inside(read.op) && reads_again(kind, read) &&
                      (is_read_in_backward(read) || again_for_part(kind, read.op));
             });
    });
  }
  [[nodiscard]] bool is_read_in_backward(UseRef use) const {
    return graph_.op(use.op).uses[static_cast<std::size_t>(use.use)].read_in_backward() &&
           has_backward(use.op);
  }
  // A reader for whom the tensor is still there when backward begins.
  [[nodiscard]] bool is_kept_for(std::size_t kind, UseRef use) const {
    return (is_saved_for(use) || again_for_part(kind, use.op)) && !reads_again(kind, use);
  }

  using ByDevice = std::map<DeviceId, Bytes>;
  static void add(ByDevice& sum, const ByDevice& more) {
    for (const auto& [d, bytes] : more) sum[d] += bytes;
  }
  static Bytes least_of(const ByDevice& bytes) {
    Bytes fewest = bytes.begin()->second;
    for (const auto& [d, b] : bytes) fewest = std::min(fewest, b);
    return fewest;
  }
  [[nodiscard]] ByDevice nothing() const {
    ByDevice none;
    for (const DeviceId d : tables_[part_.operators.front()].config.devices) none[d];
    return none;
  }
  [[nodiscard]] static ByDevice saved_by(const BoundOperator& bound) {
    ByDevice bytes;
    for (std::size_t k = 0; k < bound.memory.size(); ++k)
      bytes[bound.config.devices[k]] += bound.memory[k].saved;
    return bytes;
  }

  // How much of a tensor is there for a reader. `Copy` is the copy that it keeps (Recomputation::keeps_copy);
  // `Either` is that or all of the tensor.
  enum class There : std::uint8_t { Nothing, OwnPieces, All, Copy, Either };
  // Returns the bytes of the tensor that are there at least: the device's own piece for its maker and for
  // readers there, what arrived, and copies. What arrived for a reader that has read it is whole, so that
  // this reader no longer needs the own piece. What is gathered again may be there or only the own piece,
  // which counts.
  template <class ThereFor>
  [[nodiscard]] ByDevice bytes_of(TensorId tensor, bool for_maker, ThereFor there_for) {
    const UseRef maker = tables_.backward().producing_use(tensor);
    const Layout& made = tables_.layouts()[data_layout(maker, tables_.strategy())];
    const std::int64_t element = bytes_per_element(graph_.tensor(tensor).type);
    ByDevice own, arrived, copies;
    const auto keep_own = [&](DeviceId d) { own[d] = Bytes(made.elements_on(d) * element); };
    if (for_maker) std::ranges::for_each(tables_[maker.op].config.devices, keep_own);
    std::set<LayoutId> targets, copied;
    std::vector<UseRef> either;
    for (const UseRef use : graph_.consumers(tensor)) {
      const There there = is_inside(use.op) ? there_for(use) : There::Nothing;
      if (there == There::Nothing) continue;
      if (there == There::Either) {
        either.push_back(use);
        continue;
      }
      const CommunicationPlan& plan = forward_plan(use);
      if (there == There::Copy) {
        if (copied.insert(plan.target).second) add_copies(use, plan, made, copies);
        continue;
      }
      const bool whole =
          there == There::All && !plan.tasks.empty() && !(gathers_again() && is_gathered(use, plan));
      for (const DeviceId d : plan.local) {
        if (!whole || !plan.receives(d)) keep_own(d);
      }
      const bool is_new = there == There::All && targets.insert(plan.target).second;
      for (const auto& [d, bytes] : plan.received) {
        if (there == There::All && !whole) keep_own(d);
        if (whole && is_new) arrived[d] += bytes;
      }
    }
    for (const UseRef use : either) {
      if (!own.empty() || !arrived.empty()) break;  // which these have, too
      const CommunicationPlan& plan = forward_plan(use);
      if (copied.insert(plan.target).second) add_copies(use, plan, made, copies);
    }
    add(own, arrived);
    add(own, copies);
    return own;
  }

  // Adds the reader's copies; of what is gathered again, only those of the devices' own pieces, once.
  void add_copies(UseRef use, const CommunicationPlan& plan, const Layout& made, ByDevice& copies) const {
    const BoundOperator& reader = tables_[use.op];
    const bool gathered = gathers_again() && is_gathered(use, plan);
    const DataType type = *graph_.op(use.op).uses[static_cast<std::size_t>(use.use)].saved_as;
    for (std::size_t k = 0; k < reader.memory.size(); ++k) {
      Bytes& copy = copies[reader.config.devices[k]];
      if (gathered) {
        copy = std::max(copy, Bytes(stored_bytes(type, made.elements_on(reader.config.devices[k]))));
      } else {
        copy += copy_of_input(reader, static_cast<std::size_t>(use.use), k);
      }
    }
  }

  void measure_kept(std::size_t kind, PartCosts& costs) {
    // A reader that runs again has the tensor until then, and a copy from then on.
    const auto kept_for = [&](UseRef use) {
      if (!is_kept_for(kind, use)) return There::Nothing;
      if (!is_saved_for(use) || !recomputation(kind).keeps_copy(use)) return There::All;
      const bool second = again(kind, use.op) && !recomputation(kind).runs_again_from_copy(use);
      return second ? There::Either : There::Copy;
    };
    ByDevice kept = nothing(), of_entry = nothing();
    for (const OperatorId op : part_.operators) {
      const bool once = !again(kind, op) && has_backward(op);
      const bool stores = recomputation(kind).any() && recomputation(kind).stores_results(op);
      for (const TensorUse& use : tables_[op].op->uses) {
        if (use.role == Role::Output)
          add(kept, bytes_of(use.tensor, (use.saved && once) || stores, kept_for));
      }
      if (once) add(kept, saved_by(tables_[op]));
    }
    if (part_.entry) add(of_entry, bytes_of(*part_.entry, false, kept_for));
    costs.kept[kind] = least_of(kept);
    costs.kept_entry[kind] = least_of(of_entry);
  }

  // What passes of weight gradients read, whether it was made once or again, and the gradients that they
  // need.
  void measure_kept_for_weights(PartCosts& costs) {
    const auto has_weights = [&](OperatorId op) { return tables_.backward().need(op).weight_pass; };
    ByDevice kept = nothing();
    for (const OperatorId op : part_.operators) {
      for (const TensorUse& use : tables_[op].op->uses) {
        if (use.role != Role::Output) continue;
        add(kept, bytes_of(use.tensor, use.saved && has_weights(op), [&](UseRef read) {
              if (!is_saved_for(read) || !has_weights(read.op)) return There::Nothing;
              return may_copy(read) ? There::Either : There::All;
            }));
        if (!has_weights(op) || !has_whole_gradient(use.tensor)) continue;
        add(kept, copies_gradient(op) ? copies_of_gradient(tables_[op]) : gradient_bytes(use.tensor));
      }
      if (has_weights(op)) add(kept, saved_by(tables_[op]));
    }
    costs.kept_for_weights = least_of(kept);
  }

  // Products that cast the gradient leave a copy of it for the weights, and nothing else (LifeTasks).
  [[nodiscard]] bool copies_gradient(OperatorId op) const {
    const std::optional<Casts>& casts = graph_.op(op).casts;
    return casts && !casts->gradient.empty() && tables_.backward().need(op).input_pass;
  }
  [[nodiscard]] static ByDevice copies_of_gradient(const BoundOperator& bound) {
    ByDevice bytes;
    for (std::size_t k = 0; k < bound.memory.size(); ++k)
      bytes[bound.config.devices[k]] += bound.memory[k].gradient_copy;
    return bytes;
  }

  // What arrives, and what stays where it was made.
  [[nodiscard]] ByDevice gradient_bytes(TensorId tensor) {
    const CommunicationPlan& plan = gradient_plan(tensor);
    const std::int64_t element = bytes_per_element(graph_.tensor(tensor).type);
    ByDevice bytes(plan.received.begin(), plan.received.end());
    for (const LayoutId term : gradient_terms(tensor)) {
      for (const DeviceId d : plan.local) bytes[d] += Bytes(tables_.layouts()[term].elements_on(d) * element);
    }
    return bytes;
  }

  // Returns what is there when the last operator that runs again has done so on a device: what operators that
  // it waits for made again there, as far as backward passes read it that wait for it in turn.
  [[nodiscard]] Bytes made_again(std::size_t kind) {
    const auto last = std::find_if(part_.operators.rbegin(), part_.operators.rend(),
                                   [&](OperatorId op) { return again_for_part(kind, op); });
    if (last == part_.operators.rend()) return {};
    const std::set<OperatorId> before = ran_before(kind, *last), behind = backward_behind(kind, *last);
    if (!part_.entry || !gradient_waits_for(*part_.entry, behind)) return {};
    ByDevice made = nothing();
    for (const OperatorId op : before) {
      for (const TensorUse& use : tables_[op].op->uses) {
        if (use.role != Role::Output) continue;
        add(made, bytes_of(use.tensor, use.saved && behind.contains(op), [&](UseRef read) {
              if (!is_saved_for(read) || !behind.contains(read.op)) return There::Nothing;
              if (recomputation(kind).keeps_copy(read))
                return before.contains(read.op) ? There::Copy : There::Nothing;
              return before.contains(read.op) ? There::All : There::OwnPieces;
            }));
      }
      if (behind.contains(op)) add(made, saved_by(tables_[op]));
    }
    return least_of(made);
  }

  // Each device of the reader waits for what the same device gives.
  [[nodiscard]] bool waits_everywhere(const CommunicationPlan& plan, std::int32_t term, OperatorId reader) {
    std::vector<DeviceId> through = devices_that_give_and_take(plan, term);
    std::ranges::sort(through);
    return std::ranges::all_of(tables_[reader].config.devices,
                               [&](DeviceId d) { return std::ranges::binary_search(through, d); });
  }

  // Operators that run again before this one on every device, and itself.
  [[nodiscard]] std::set<OperatorId> ran_before(std::size_t kind, OperatorId last) {
    std::set<OperatorId> before{last};
    for (auto op = part_.operators.rbegin(); op != part_.operators.rend(); ++op) {
      if (!again(kind, *op)) continue;
      for (const TensorUse& use : tables_[*op].op->uses) {
        if (use.role != Role::Output) continue;
        const auto readers = graph_.consumers(use.tensor);
        if (std::ranges::any_of(readers, [&](UseRef read) {
              return before.contains(read.op) && reads_again(kind, read) &&
                     waits_everywhere(forward_plan(read), 0, read.op);
            }))
          before.insert(*op);
      }
    }
    return before;
  }

  // Operators whose backward waits on every device until this one has run again there.
  [[nodiscard]] std::set<OperatorId> backward_behind(std::size_t kind, OperatorId last) {
    std::set<OperatorId> behind{last};
    for (auto op = part_.operators.rbegin(); op != part_.operators.rend(); ++op) {
      if (!has_backward(*op)) continue;
      const std::vector<TensorUse>& uses = tables_[*op].op->uses;
      for (std::size_t u = 0; u < uses.size(); ++u) {
        const UseRef use{*op, static_cast<std::int32_t>(u)};
        const bool waits = uses[u].role == Role::Output
                               ? gradient_waits_for(uses[u].tensor, behind)
                               : graph_.tensor(uses[u].tensor).producer == last && !again(kind, *op) &&
                                     is_saved_for(use) && reads_again(kind, use) &&
                                     waits_everywhere(forward_plan(use), 0, *op);
        if (waits) behind.insert(*op);
      }
    }
    return behind;
  }

  // Whether what makes the tensor waits for its gradient from one of these.
  [[nodiscard]] bool gradient_waits_for(TensorId tensor, const std::set<OperatorId>& makers) {
    if (!has_whole_gradient(tensor)) return false;
    const LayoutIds terms = gradient_terms(tensor);
    const OperatorId to = tables_.backward().producing_use(tensor).op;
    return std::ranges::any_of(tables_.backward().gradient_makers(tensor), [&](UseRef maker) {
      if (!makers.contains(maker.op)) return false;
      const auto term = std::ranges::find(terms, gradient_layout(maker, tables_.strategy())) - terms.begin();
      return waits_everywhere(gradient_plan(tensor), static_cast<std::int32_t>(term), to);
    });
  }

  // Weights that another part uses too may have copies there.
  void measure_weights(PartCosts& costs) {
    for (const OperatorId op : part_.operators) {
      for (const TensorId weight : tables_.backward().owned_weights(op))
        costs.weights.push_back(held(weight));
      for (const TensorId weight : tables_.backward().frozen_weights(op)) {
        costs.weights.push_back(held(weight));
        costs.weights.back().frozen_bits = graph_.tensor(weight).stored_bits();
        costs.weights.back().in_backward =
            std::ranges::any_of(graph_.consumers(weight), [&](UseRef use) { return has_backward(use.op); });
      }
    }
  }

  [[nodiscard]] PartCosts::Weights held(TensorId weight) {
    const auto [needed, alone] = reader_layouts(weight);
    const Layout& home = tables_.layouts()[tables_.plans().home(needed)];
    PartCosts::Weights held{INT64_MAX, 0, 1, shape_of_weight(graph_, weight, graph_.tensor(weight).type)};
    std::map<std::int32_t, std::int64_t> holders;  // by box
    std::int64_t sum = 0;
    for (const LayoutEntry& e : home.entries()) {
      sum += home.box(e).elements();
      held.copies = std::max(held.copies, ++holders[e.box]);
    }
    const std::vector<DeviceId>& devices = tables_[graph_.consumers(weight).front().op].config.devices;
    for (const DeviceId d : devices) held.elements = std::min(held.elements, home.elements_on(d));
    held.mean_elements = static_cast<double>(sum) / static_cast<double>(devices.size());
    if (!alone) held.copies = INT32_MAX;
    return held;
  }
};

}  // namespace

void measure_memory(const PartOnMesh& part, PartCosts& costs) { PartMemory(part).measure(costs); }

}  // namespace pipesim
