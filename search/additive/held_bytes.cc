#include <algorithm>
#include <map>

#include "search/additive/additive_costs.h"

namespace pipesim {
namespace {

// Calls visit(elements) for each device that holds some.
template <class Visit>
void visit_parts(const Layout& layout, Visit visit) {
  std::map<DeviceId, std::int64_t> elements;
  for (const LayoutEntry& e : layout.entries()) elements[e.device] += layout.box(e).elements();
  for (const auto& [device, count] : elements) visit(count);
}

// A device that receives a tensor copies its own part of it to the others, and no longer keeps that part. The
// node of the maker counts it, so a move adds what is more.
Bytes bytes_beyond(Bytes received, Bytes own) { return std::max(received - own, Bytes(0)); }

}  // namespace

// What the device keeps that holds most of the operator: results that backward reads, what else is saved, and
// the copy of its input that it makes for all that read it, unless forward runs again.
AdditiveCosts::Held AdditiveCosts::held_of(OperatorId op, std::size_t config) const {
  const PlanContents& contents = evaluator_.contents();
  if (!contents.versions().trained()) return {};
  const OperatorGraph& graph = evaluator_.graph();
  const Recomputation& recomputation = contents.recomputation();
  const bool again = recomputation.again(op);
  const BoundOperator& bound = bind(op, config);
  bool is_read = false, is_kept = false;
  for (const TensorUse& use : bound.op->uses) {
    if (use.role != Role::Output) continue;
    is_read = is_read || use.saved;
    for (const UseRef reader : graph.consumers(use.tensor)) {
      const TensorUse& read = graph.op(reader.op).uses[static_cast<std::size_t>(reader.use)];
      const bool reads = (read.read_in_backward() && !recomputation.keeps_copy(reader)) ||
                         (recomputation.again(reader.op) && !recomputation.runs_again_from_copy(reader));
      is_read = is_read || reads;
      is_kept = is_kept || (reads && !recomputation.reads_again(reader));
    }
  }
  // Products in float8 share the copy of the one that casts it.
  const bool copies = !bound.op->casts || !bound.op->casts->input.empty();
  Held most;
  for (const ShardMemory& memory : bound.memory) {
    const Bytes outputs = is_read ? memory.outputs : Bytes(0),
                saved = memory.saved + (copies ? memory.input_copy : Bytes(0));
    const Held held{{},
                    again ? (is_kept ? outputs : Bytes(0)) : saved + outputs,
                    again ? saved + (is_kept ? Bytes(0) : outputs) : Bytes(0)};
    most.in_flight = std::max(most.in_flight, held.in_flight);
    most.once = std::max(most.once, held.once);
  }
  return most;
}

// Counts the state of a weight as WeightUpdates does.
AdditiveCosts::Held AdditiveCosts::state_of(TensorId weight) const {
  const PlanContents& contents = evaluator_.contents();
  const PlanOptions& options = contents.options();
  const StateSharding& sharding = options.state_sharding;
  const Tensor& tensor = evaluator_.graph().tensor(weight);
  const WeightShape shape = shape_of_weight(evaluator_.graph(), weight,
                                            tensor.frozen ? tensor.type : sharding.kept_type(tensor.type));
  const auto most_of = [&](LayoutId id, auto part) {
    const Layout& layout = contents.layouts()[id];
    std::vector<Bytes> held(evaluator_.topology().num_devices());
    for (const LayoutEntry& e : layout.entries())
      held[e.device.index()] += part(CostModel::weight_memory(layout.box(e).elements(), shape,
                                                              options.gradient_type, options.optimizer));
    return std::ranges::max(held);
  };
  const auto weights = [](const WeightMemory& m) { return m.weights; };
  const auto stored = [&](LayoutId id) {
    const Layout& layout = contents.layouts()[id];
    std::vector<Bytes> held(evaluator_.topology().num_devices());
    for (const LayoutEntry& e : layout.entries())
      held[e.device.index()] += tensor.stored(layout.box(e).elements());
    return std::ranges::max(held);
  };
  const LayoutId whole = contents.home_of(weight, others_), divided = contents.state_of(weight, others_);
  Held held;
  if (tensor.frozen) {
    held.always = stored(divided);
    if (divided != whole) (sharding.keeps_gathered() ? held.in_flight : held.once) = stored(whole);
    return held;
  }
  held.always = most_of(sharding.gathers_to_use() ? divided : whole, weights) +
                most_of(sharding.each_microbatch() ? divided : whole,
                        [](const WeightMemory& m) { return m.gradients; }) +
                most_of(divided, [](const WeightMemory& m) { return m.optimizer_state; });
  if (sharding.gathers_to_use())
    (sharding.keeps_gathered() ? held.in_flight : held.once) = most_of(whole, weights);
  return held;
}

void AdditiveCosts::note_held(std::size_t unit, Choice& choice) {
  for (const OperatorId op : units_[unit].operators) choice.held.push_back(held_of(op, choice.config));
  for (const TensorId w : units_[unit].weights)
    with_config(unit, w, choice.config, [&] { choice.held.push_back(state_of(w)); });
}

// Returns what the move adds on the consumer's fullest device, divided by the number of consumers that keep
// what they get.
Bytes AdditiveCosts::kept_bytes(const Flow& flow, LayoutId data, LayoutId needed, bool planned) {
  const PlanContents& contents = evaluator_.contents();
  const Layout& made = contents.layouts()[data];
  const Operator& maker = evaluator_.graph().op(flow.producer.op);
  const bool kept_by_maker = maker.uses[static_cast<std::size_t>(flow.producer.use)].saved;
  const auto bytes = [element = contents.transfer_setting(flow.tensor, Moved::Data).element_bytes](
                         std::int64_t elements) { return Bytes(elements * element); };
  Bytes most;
  if (planned) {
    const CommunicationPlan& plan =
        contents.transfer_plan(flow.tensor, std::span(&data, 1), needed, Moved::Data);
    for (const auto& [device, received] : plan.received)
      most = std::max(most, bytes_beyond(received, bytes(kept_by_maker ? 0 : made.elements_on(device))));
  } else {
    const auto part = [&](LayoutId layout) -> const PartSizes& {
      const auto [known, is_new] = parts_.try_emplace(layout);
      if (!is_new) return known->second;
      PartSizes& sizes = known->second;
      visit_parts(contents.layouts()[layout], [&](std::int64_t elements) {
        sizes.least = sizes.most == 0 ? elements : std::min(sizes.least, elements);
        sizes.most = std::max(sizes.most, elements);
      });
      return sizes;
    };
    most = bytes_beyond(bytes(part(needed).least), bytes(kept_by_maker ? 0 : part(data).most));
  }
  return Bytes(most.value / flow.keepers);
}

std::vector<std::vector<Bytes>> AdditiveCosts::held_of_moves(const AdditiveCounts& part,
                                                             std::int64_t in_flight) const {
  std::vector<std::vector<Bytes>> held;
  for (std::size_t i = 0; i < flows_.size(); ++i) {
    const Flow& f = flows_[i];
    if (part.tensors[i] == 0 || f.from == f.to) continue;
    held.emplace_back();
    for (const Time& time : f.time)
      held.back().push_back(in_flight * static_cast<std::int64_t>(part.tensors[i]) * time.kept);
  }
  return held;
}

std::vector<std::vector<Bytes>> AdditiveCosts::held(const AdditiveCounts& part, std::int64_t in_flight) {
  const bool all_again = evaluator_.contents().options().recompute.kind == Recompute::Kind::Stage;
  std::vector<std::vector<Bytes>> held(units_.size());
  for (std::size_t u = 0; u < units_.size(); ++u) {
    if (!counts(u, part)) {
      held[u].emplace_back();
      continue;
    }
    for (Choice& choice : units_[u].choices) {
      if (choice.held.empty()) note_held(u, choice);
      Bytes sum;
      const auto add = [&](const Held& h, double number) {
        const auto n = static_cast<std::int64_t>(number);
        const std::int64_t once = all_again ? n : std::min<std::int64_t>(n, 1);
        sum += n * (h.always + in_flight * h.in_flight) + once * h.once;
      };
      const std::vector<double>&operators = part.operators[u], &weights = part.weights[u];
      for (std::size_t i = 0; i < operators.size(); ++i) add(choice.held[i], operators[i]);
      for (std::size_t w = 0; w < weights.size(); ++w) add(choice.held[operators.size() + w], weights[w]);
      held[u].push_back(sum);
    }
  }
  for (std::size_t i = 0; i < flows_.size(); ++i) {
    const Flow& f = flows_[i];
    const auto times = static_cast<std::int64_t>(part.tensors[i]);
    for (std::size_t c = 0; times > 0 && f.from == f.to && c < f.time.size(); ++c)
      held[f.from][c] += times * in_flight * f.time[c].kept;
  }
  return held;
}

}  // namespace pipesim
