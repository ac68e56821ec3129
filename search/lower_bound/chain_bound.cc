#include "search/lower_bound/chain_bound.h"

#include <algorithm>
#include <cmath>

#include "models/box.h"
#include "sim/base/deadline.h"

namespace pipesim {
namespace {

const TensorUse& use_of(const OperatorGraph& graph, UseRef ref) {
  return graph.op(ref.op).uses[static_cast<std::size_t>(ref.use)];
}

bool held_once(const TensorUse& use) {
  return std::any_of(use.lacks.begin(), use.lacks.end(),
                     [](const auto& lack) { return lack.second == Lack::Once; });
}

// The dimension's range for element `at` of the factor that it follows.
Range range_at(const IndexExpr& dim, const Operator& op, std::int64_t at) {
  std::vector<Range> ranges = whole_ranges(op);
  ranges[static_cast<std::size_t>(dim.factors.front())] = {at, at + 1};
  return index_range(dim, op, ranges);
}

std::int64_t followed_size(const IndexExpr& dim, const Operator& op) {
  return op.factors[static_cast<std::size_t>(dim.factors.front())].size;
}

// Every piece of the factor touches the dimension.
bool always_touched(const IndexExpr& dim, const Operator& op) {
  if (dim.kind == IndexExpr::Kind::Whole || dim.kind == IndexExpr::Kind::Merged) return true;
  return range_at(dim, op, 0).length() > 0 && range_at(dim, op, followed_size(dim, op) - 1).length() > 0;
}

// The pieces together leave no element of the dimension out.
bool covered(const IndexExpr& dim, const Operator& op) {
  if (dim.kind == IndexExpr::Kind::Whole || dim.kind == IndexExpr::Kind::Merged) return true;
  const bool gaps = dim.kind == IndexExpr::Kind::Window && dim.dilation * (dim.kernel - 1) + 1 < dim.stride;
  return !gaps && index_range(dim, op, whole_ranges(op)) == Range{0, dim.extent};
}

// Every shard, however it is cut, needs some part of the tensor.
bool always_needed(const TensorUse& use, const Operator& op) {
  return !held_once(use) && std::all_of(use.dims.begin(), use.dims.end(),
                                        [&](const IndexExpr& dim) { return always_touched(dim, op); });
}

bool distinct_factors(const TensorUse& use) {
  std::vector<FactorIndex> all;
  for (const IndexExpr& dim : use.dims) all.insert(all.end(), dim.factors.begin(), dim.factors.end());
  std::sort(all.begin(), all.end());
  return std::adjacent_find(all.begin(), all.end()) == all.end();
}

// Every element of the tensor gets a gradient from the use.
bool reaches_all(const TensorUse& use, const Operator& op) {
  return distinct_factors(use) && std::all_of(use.dims.begin(), use.dims.end(),
                                              [&](const IndexExpr& dim) { return covered(dim, op); });
}

// The only factor along which pieces of the use can be empty, as in concat; −1 when there is none or several.
FactorIndex cutting_axis(const TensorUse& use, const Operator& op) {
  FactorIndex axis = -1;
  for (const IndexExpr& dim : use.dims) {
    if (always_touched(dim, op)) continue;
    if (axis >= 0 || dim.kind != IndexExpr::Kind::Axis) return -1;
    axis = dim.factors.front();
  }
  return held_once(use) ? -1 : axis;
}

const IndexExpr& dim_along(const TensorUse& use, FactorIndex axis) {
  return *std::find_if(use.dims.begin(), use.dims.end(), [axis](const IndexExpr& dim) {
    return dim.kind == IndexExpr::Kind::Axis && dim.factors.front() == axis;
  });
}

bool is_input(const TensorUse& use) { return use.role == Role::Input || use.role == Role::Index; }

// The use has a gradient in each backward pass of this operator.
bool makes_gradient(const TensorUse& use, const BackwardNeed& need, const OperatorGraph& graph) {
  if (!graph.wants_gradient(use.tensor)) return false;
  if (use.role == Role::Weight) return need.input_pass || need.weight_pass;
  return use.role == Role::Input && need.input_pass;
}

// Factors that make shards' gradients of the weight addends.
bool summed_over(const TensorUse& weight, FactorIndex f) {
  return !weight.follows(f) && weight.lack(f) == Lack::Summed;
}

double widest_inlet(const Topology& topology) {
  std::vector<double> into(topology.num_devices(), 0.0);
  for (const Link& link : topology.parts().links) {
    for (const std::int32_t end : {link.a, link.b}) {
      if (static_cast<std::size_t>(end) < into.size())
        into[static_cast<std::size_t>(end)] += link.bandwidth.value;
    }
  }
  return *std::max_element(into.begin(), into.end());
}

}  // namespace

std::vector<TrainedWeights> trained_weights(const OperatorGraph& graph) {
  std::vector<TrainedWeights> result(graph.operators().size());
  for (std::size_t t = 0; t < graph.tensors().size(); ++t) {
    if (graph.tensors()[t].kind != TensorKind::Weight) continue;
    const auto uses = graph.consumers(TensorId(t));
    const bool trained = std::any_of(uses.begin(), uses.end(), [&](UseRef use) {
      return makes_gradient(use_of(graph, use), backward_need(graph, use.op), graph);
    });
    if (trained) result[uses.front().op.index()].owned.emplace_back(t);
  }
  return result;
}

void add_part(const OperatorGraph& graph, const PlanOptions& options, TensorId weight, std::int64_t elements,
              UpdatedWeights& updated) {
  const DataType kept = options.state_sharding.kept_type(graph.tensor(weight).type);
  updated.add(elements, shape_of_weight(graph, weight, kept));
}

UpdatedWeights no_weights_like(const OperatorGraph& graph, const PlanOptions& options, TensorId weight) {
  return {options.optimizer, options.state_sharding.kept_type(graph.tensor(weight).type)};
}

ChainBounds::ChainBounds(const PassBounds& passes, const PlanOptions& options)
    : passes_(passes),
      graph_(passes.graph()),
      options_(options),
      widest_inlet_(widest_inlet(passes.costs().topology())) {
  const std::size_t count = graph_.operators().size();
  forward_end_.assign(count, 0);
  gradient_ready_.assign(count, 0);
  backward_end_.assign(count, 0);
  for (std::size_t i = 0; i < count; ++i) {
    stop_if_late();
    need_.push_back(backward_need(graph_, OperatorId(i)));
    share_.push_back(smallest_share(graph_.operators()[i], passes.num_devices()));
    forward(OperatorId(i));
  }
  for (std::size_t i = count; i-- > 0;) {
    stop_if_late();
    backward(OperatorId(i));
  }
  for (const TrainedWeights& w : trained_weights(graph_))
    trained_.insert(trained_.end(), w.owned.begin(), w.owned.end());
}

Nanoseconds ChainBounds::pass_time(OperatorId op, Pass pass, double share) const {
  return rounded_down(passes_.shard(graph_.op(op), pass, share));
}

void ChainBounds::forward(OperatorId id) {
  const Operator& op = graph_.op(id);
  forward_end_[id.index()] = inputs_ready(op) + pass_time(id, Pass::Forward, share_[id.index()]);
}

Nanoseconds ChainBounds::inputs_ready(const Operator& op) const {
  Nanoseconds ready = 0;
  FactorIndex axis = -1;
  for (const TensorUse& use : op.uses) {
    const OperatorId producer = graph_.tensor(use.tensor).producer;
    if (!is_input(use)) continue;
    if (producer.valid() && always_needed(use, op)) ready = std::max(ready, forward_end_[producer.index()]);
    axis = std::max(axis, cutting_axis(use, op));
  }
  return axis < 0 ? ready : std::max(ready, some_input_ready(op, axis));
}

// The least, over the points of the axis, of when all inputs that lie there are ready.
Nanoseconds ChainBounds::some_input_ready(const Operator& op, FactorIndex axis) const {
  std::vector<const TensorUse*> pieces;
  std::vector<std::int64_t> points{0};
  const std::int64_t size = op.factors[static_cast<std::size_t>(axis)].size;
  for (const TensorUse& use : op.uses) {
    if (!is_input(use) || cutting_axis(use, op) != axis) continue;
    pieces.push_back(&use);
    const IndexExpr& dim = dim_along(use, axis);
    points.push_back(std::clamp<std::int64_t>(-dim.offset, 0, size - 1));
    points.push_back(std::clamp<std::int64_t>(dim.extent - dim.offset, 0, size - 1));
  }
  Nanoseconds least = INT64_MAX;
  for (const std::int64_t point : points) {
    Nanoseconds ready = 0;
    for (const TensorUse* use : pieces) {
      const OperatorId producer = graph_.tensor(use->tensor).producer;
      if (!producer.valid() || range_at(dim_along(*use, axis), op, point).length() == 0) continue;
      ready = std::max(ready, forward_end_[producer.index()]);
    }
    least = std::min(least, ready);
  }
  return least;
}

void ChainBounds::backward(OperatorId id) {
  const Operator& op = graph_.op(id);
  const BackwardNeed& need = need_[id.index()];
  if (!need.input_pass && !need.weight_pass) return;
  Nanoseconds ready = 0;
  bool arrives = false;
  for (const TensorUse& output : op.uses) {
    if (output.role != Role::Output) continue;
    for (const UseRef c : graph_.consumers(output.tensor)) {
      const TensorUse& use = use_of(graph_, c);
      if (!makes_gradient(use, need_[c.op.index()], graph_)) continue;
      arrives = true;
      if (!always_needed(output, op) || !reaches_all(use, graph_.op(c.op))) continue;
      ready = std::max(ready, backward_end_[c.op.index()]);
    }
  }
  if (!arrives) ready = forward_end_[id.index()];
  gradient_ready_[id.index()] = ready;
  if (need.input_pass)
    backward_end_[id.index()] = ready + pass_time(id, Pass::BackwardInput, share_[id.index()]);
}

// The end of the pass that makes a weight's gradient.
Nanoseconds ChainBounds::gradient_of(UseRef use, double share) const {
  const bool separate = need_[use.op.index()].weight_pass;
  return gradient_ready_[use.op.index()] +
         pass_time(use.op, separate ? Pass::BackwardWeight : Pass::BackwardInput, share);
}

// Time to update a device's part of the weight, which is at least the part of the shard with the smallest
// share of all uses. Where copies divide the state, all devices may do so.
Nanoseconds ChainBounds::update(TensorId weight) const {
  double share = 1;
  for (const UseRef use : graph_.consumers(weight)) share = std::min(share, share_[use.op.index()]);
  if (options_.state_sharding.any()) share = std::min(share, 1 / static_cast<double>(passes_.num_devices()));
  const auto elements =
      static_cast<std::int64_t>(static_cast<double>(graph_.tensor(weight).elements()) * share * (1 - 1e-9));
  UpdatedWeights updated = no_weights_like(graph_, options_, weight);
  add_part(graph_, options_, weight, std::max<std::int64_t>(1, elements), updated);
  double least = INFINITY;
  for (const DeviceId kind : passes_.kinds())
    least = std::min(least, passes_.costs().update_time(updated, kind).value);
  return rounded_down(least);
}

Nanoseconds ChainBounds::longest() const {
  Nanoseconds longest = 0;
  for (std::size_t i = 0; i < forward_end_.size(); ++i) {
    const OperatorId op(i);
    stop_if_late();
    Nanoseconds end = std::max(forward_end_[i], backward_end_[i]);
    if (need_[i].weight_pass) {
      end = std::max(end, std::max(gradient_ready_[i], backward_end_[i]) +
                              pass_time(op, Pass::BackwardWeight, share_[i]));
    }
    longest = std::max(longest, end);
  }
  for (const TensorId w : trained_) {
    Nanoseconds complete = 0;
    for (const UseRef use : graph_.consumers(w)) {
      if (!makes_gradient(use_of(graph_, use), need_[use.op.index()], graph_)) continue;
      complete = std::max(complete, gradient_of(use, share_[use.op.index()]));
    }
    longest = std::max(longest, complete + update(w));
  }
  return longest;
}

// When a device can have the gradient of its part of a weight with one use.
Nanoseconds ChainBounds::synchronised(UseRef ref) const {
  const Operator& op = graph_.op(ref.op);
  const TensorUse& use = use_of(graph_, ref);
  const std::int64_t devices = passes_.num_devices();
  const Nanoseconds apart =
      gradient_of(ref, smallest_share(op, devices, [&](FactorIndex f) { return !summed_over(use, f); }));
  if (devices == 1) return apart;
  const double part = smallest_share(op, devices / 2, [&](FactorIndex f) { return use.follows(f); });
  const Tensor& weight = graph_.tensor(use.tensor);
  const std::int64_t element =
      std::max(bytes_per_element(options_.gradient_type), bytes_per_element(weight.type));
  const double bytes = part * static_cast<double>(weight.elements() * element);
  // Each task holds a lane for a time rounded by at most half a nanosecond.
  const auto pieces = weight.elements() * element / options_.gradient_piece.value + 1;
  const Nanoseconds rounding = devices * pieces;
  const Nanoseconds crossing = std::max<Nanoseconds>(0, rounded_down(bytes / widest_inlet_) - rounding);
  return std::min(apart, gradient_of(ref, share_[ref.op.index()]) + crossing);
}

Nanoseconds ChainBounds::longest_crossing() const {
  Nanoseconds longest = 0;
  if (options_.state_sharding.any()) return longest;  // a device gets no more than its part of the state
  for (const TensorId w : trained_) {
    const auto uses = graph_.consumers(w);
    stop_if_late();
    if (uses.size() == 1) longest = std::max(longest, synchronised(uses.front()) + update(w));
  }
  return longest;
}

}  // namespace pipesim
