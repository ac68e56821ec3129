#include <algorithm>

#include "costmodel/cost_model.h"
#include "sim/base/errors.h"

namespace pipesim {

namespace {

// Whether a loss reads the result, or is it.
bool ends_in_loss(const OperatorGraph& graph, TensorId result) {
  if (graph.tensor(result).shape.empty()) return true;
  return std::ranges::any_of(graph.consumers(result), [&](UseRef reader) {
    return std::ranges::any_of(graph.op(reader.op).uses, [&](const TensorUse& use) {
      return use.role == Role::Output && graph.tensor(use.tensor).shape.empty();
    });
  });
}

// Whether an operator that reads the weight is an embedding or a head: looks rows up, or makes what a loss
// reads.
bool is_at_an_end(const OperatorGraph& graph, const Operator& op) {
  return op.kind.starts_with("embedding") || std::ranges::any_of(op.uses, [&](const TensorUse& use) {
           return use.role == Role::Output && ends_in_loss(graph, use.tensor);
         });
}

// A step of Newton and Schulz's iteration on a matrix X of n ≤ m makes A = XXᵀ, B = bA + cA² and aX + BX.
double orthogonalizing_flops(const WeightShape& shape) {
  constexpr double steps = 5;
  const auto n = static_cast<double>(std::min(shape.rows, shape.columns)),
             m = static_cast<double>(std::max(shape.rows, shape.columns));
  return steps * (4 * n * n * m + 2 * n * n * n);
}

}  // namespace

WeightShape shape_of_weight(const OperatorGraph& graph, TensorId weight, DataType kept) {
  const std::span<const UseRef> uses = graph.consumers(weight);
  if (graph.tensor(weight).shape.size() < 2 || uses.empty()) return kept;
  const Operator& op = graph.op(uses.front().op);
  const TensorUse& use = op.uses[static_cast<std::size_t>(uses.front().use)];
  if (!op.matrix) {
    const std::vector<std::int64_t>& shape = graph.tensor(weight).shape;
    return {kept, shape[shape.size() - 2], shape.back(), false};
  }
  const auto length = [&](const std::vector<FactorIndex>& factors) {
    std::int64_t product = 1;
    for (const FactorIndex f : factors)
      product *= use.follows(f) ? op.factors[static_cast<std::size_t>(f)].size : 1;
    return product;
  };
  const bool at_an_end =
      std::ranges::any_of(uses, [&](UseRef reader) { return is_at_an_end(graph, graph.op(reader.op)); });
  return {kept, length(op.matrix->inner), length(op.matrix->columns), !at_an_end};
}

WeightMemory CostModel::weight_memory(std::int64_t elements, const WeightShape& shape, DataType gradient_type,
                                      const Optimizer& optimizer) {
  return {Bytes(elements * bytes_per_element(shape.type)), Bytes(elements * bytes_per_element(gradient_type)),
          state_bytes(elements, shape, optimizer)};
}

Bytes widened_gradients(std::int64_t elements, DataType weight, DataType gradient, const Optimizer& optimizer,
                        StepGradients copies, bool divided) {
  const bool copied = bytes_per_element(gradient) == 2 && main_type(weight, optimizer) == DataType::Float32;
  return Bytes(copied ? elements * bytes_in_step(copies, divided) : 0);
}

std::int64_t bytes_in_step(StepGradients copies, bool divided) {
  if (copies == StepGradients::Own) return 0;
  constexpr std::int64_t kOfGradient = 2, kOfCopy = 4;
  if (copies == StepGradients::Float32) return kOfCopy;
  return (divided ? kOfGradient : kOfCopy) + kOfCopy;
}

Bytes optimizer_intermediates(std::int64_t elements, const WeightShape& shape, const Optimizer& optimizer,
                              OptimizerKernel kernel) {
  if (kernel == OptimizerKernel::Fused) return Bytes(0);
  const bool divided_too = kernel == OptimizerKernel::Single && optimizer.kind != Optimizer::Adafactor;
  return Bytes((divided_too ? 2 : 1) * elements * second_moment_bytes(shape, optimizer));
}

bool holds_intermediates_of_all(const Optimizer& optimizer, const Runtime& runtime) {
  return runtime.step_gradients == StepGradients::Flat ||
         (runtime.optimizer_kernel == OptimizerKernel::Foreach && optimizer.kind != Optimizer::Adafactor);
}

void UpdatedWeights::add(std::int64_t part, const WeightShape& shape) {
  if (part < 0) throw InternalError("update of a negative number of weights");
  elements += part;
  state += state_bytes(part, shape, optimizer);
  if (optimizer.kind == Optimizer::Muon && shape.in_layer)
    flops += static_cast<double>(part) / static_cast<double>(shape.rows * shape.columns) *
             orthogonalizing_flops(shape);
}

// The gradient is read, states are read and written, the weight is written, and read where it is its own
// main weight, or a part of it.
Seconds analytic_update_time(const UpdatedWeights& weights, const DeviceKind& kind) {
  if (weights.elements == 0) return Seconds(0);
  const Optimizer& optimizer = weights.optimizer;
  const bool apart = main_type(weights.type, optimizer) && !keeps_remainder(weights.type, optimizer);
  const std::int64_t own = bytes_per_element(weights.type) * (apart ? 2 : 3);
  const Bytes moved = weights.elements * Bytes(own) + 2 * weights.state;
  const Seconds time =
      kind.launch_overhead + moved / BytesPerSecond(kind.memory_bandwidth.value * kind.memory_efficiency);
  if (weights.flops == 0) return time;
  return time + Flops(weights.flops) / peak_rate(kind, DataType::BFloat16);
}

}  // namespace pipesim
