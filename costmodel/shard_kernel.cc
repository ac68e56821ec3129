#include "costmodel/shard_kernel.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "costmodel/cost_model.h"
#include "models/box.h"
#include "models/causal_mask.h"
#include "sim/base/errors.h"

namespace pipesim {

namespace {

bool has_weights(const Operator& op) {
  auto is_weight = [](const TensorUse& use) { return use.role == Role::Weight; };
  return std::any_of(op.uses.begin(), op.uses.end(), is_weight);
}

class PassOfShard {
 public:
  PassOfShard(const OperatorGraph& graph, const Operator& op, Pass pass, std::span<const Range> ranges,
              const TokenLoad& load, DataType sums)
      : graph_(graph), op_(op), pass_(pass), ranges_(ranges), load_(load), sums_(sums) {
    if (pass == Pass::Update)
      throw InternalError("operator_time of an update; update_time knows the optimizer");
    if (ranges.size() != op.factors.size()) {
      throw InternalError("operator \"" + op.name + "\" has " + std::to_string(op.factors.size()) +
                          " factors, not " + std::to_string(ranges.size()));
    }
  }

  [[nodiscard]] ShardKernel kernel() const {
    ShardKernel kernel;
    if (op_.moves_nothing || empty_shard() || !wanted()) return kernel;
    kernel.runs = true;
    kernel.type = op_.casts ? op_.casts->type : operand_type(graph_, op_);
    if (op_.measured) {
      kernel.measured = measured_seconds() * load_.times;
      return kernel;
    }
    double visible = visible_share(op_, ranges_);
    kernel.work.flops = flops() * visible * load_.times;
    kernel.work.bytes = bytes();
    kernel.work.sorts = op_.separate.sorted.has_value();
    if (!kernel.work.sorts || has_several_experts()) kernel.work.bytes_apart = bytes_apart();
    add_sums(kernel.work);
    kernel.work.in_turn = op_.separate.in_turn;
    kernel.work.norm_backward = op_.separate.norm && pass_ != Pass::Forward;
    if (op_.casts) add_casts(kernel.work);
    kernel.work.unpacked_bytes = unpacked_bytes();
    if (op_.matrix) {
      kernel.work.matrix = matrix_size(*op_.matrix, pass_, loaded_ranges());
      if (kernel.work.matrix->fused != FusedPass::None) see_keys(*kernel.work.matrix, visible);
    }
    return kernel;
  }

 private:
  [[nodiscard]] bool empty_shard() const {
    return std::any_of(ranges_.begin(), ranges_.end(), [](Range r) { return r.length() <= 0; });
  }

  [[nodiscard]] bool wants(const TensorUse& use) const {
    return use.role == Role::Input && graph_.wants_gradient(use.tensor);
  }

  [[nodiscard]] bool wants_some_input() const {
    return std::any_of(op_.uses.begin(), op_.uses.end(), [this](const TensorUse& use) { return wants(use); });
  }

  [[nodiscard]] bool gets_gradient() const {
    return std::any_of(op_.uses.begin(), op_.uses.end(), [this](const TensorUse& use) {
      return use.role == Role::Output && graph_.gets_gradient(use.tensor);
    });
  }

  /// Weights whose gradient BackwardInput computes along with the inputs'.
  [[nodiscard]] bool weights_ride_along() const { return trains_weights() && !has_weight_pass(); }

  [[nodiscard]] bool is_trained(const TensorUse& use) const {
    return use.role == Role::Weight && graph_.wants_gradient(use.tensor);
  }
  [[nodiscard]] bool trains_weights() const {
    return std::any_of(op_.uses.begin(), op_.uses.end(),
                       [this](const TensorUse& use) { return is_trained(use); });
  }
  [[nodiscard]] bool has_weight_pass() const {
    return trains_weights() && !op_.flops_backward_weight.empty();
  }

  [[nodiscard]] bool wanted() const {
    if (pass_ == Pass::Forward) return true;
    // A profile's figure holds whatever the graph says: it was measured.
    if (op_.measured && !has_weight_pass()) return pass_ == Pass::BackwardInput;
    if (!gets_gradient()) return false;
    if (pass_ == Pass::BackwardWeight) return has_weight_pass();
    return wants_some_input() || weights_ride_along();
  }

  /// The whole operator's measured seconds times this shard's share of its points. A profile has one figure
  /// for backward; where both backward passes run each is taken for half of it.
  [[nodiscard]] double measured_seconds() const {
    double share = 1;
    for (std::size_t f = 0; f < ranges_.size(); ++f) {
      share *= static_cast<double>(ranges_[f].length()) / static_cast<double>(op_.factors[f].size);
    }
    if (pass_ == Pass::Forward) return op_.measured->forward.value * share;
    bool both = has_weight_pass() && wants_some_input();
    return op_.measured->backward.value * share * (both ? 0.5 : 1);
  }

  [[nodiscard]] double flops() const {
    switch (pass_) {
      case Pass::Forward:
        return evaluate(op_.flops_forward, ranges_);
      case Pass::BackwardWeight:
        return evaluate(op_.flops_backward_weight, ranges_);
      default:
        return evaluate(op_.flops_backward_input, ranges_) * share_of_wanted_products();
    }
  }

  /// A product of two inputs has one product of the same cost per gradient: those that nothing wants are left
  /// out.
  [[nodiscard]] double share_of_wanted_products() const {
    if (!op_.matrix || has_weights(op_)) return 1;
    double inputs = 0, wanted = 0;
    for (const TensorUse& use : op_.uses) {
      inputs += use.role == Role::Input ? 1 : 0;
      wanted += wants(use) ? 1 : 0;
    }
    return wanted / inputs;
  }

  [[nodiscard]] double bytes() const {
    double total = 0;
    for (const TensorUse& use : op_.uses)
      total += passes_over(use) * bytes_of(use) * (use.role == Role::Weight ? 1 : load_.times);
    if (pass_ == Pass::Forward) return total + evaluate(op_.bytes_forward_extra, ranges_) * load_.times;
    total += evaluate(op_.saved_extra_bytes, ranges_) * load_.times;
    // The scratch traffic of backward belongs to its first kernel.
    bool first = pass_ == Pass::BackwardInput || !wants_some_input();
    return first ? total + evaluate(op_.bytes_backward_extra, ranges_) * load_.times : total;
  }

  void add_casts(KernelWork& work) const {
    if (pass_ == Pass::Forward) {
      work.cast_bytes = evaluate(op_.casts->input, ranges_) * load_.times;
      work.weight_cast_bytes = evaluate(op_.casts->weight, ranges_);
    } else if (pass_ == Pass::BackwardInput || !wants_some_input()) {
      work.cast_bytes = evaluate(op_.casts->gradient, ranges_) * load_.times;
    }
  }

  // Weights that are stored otherwise are read as they are stored, and written in their type.
  [[nodiscard]] double unpacked_bytes() const {
    double total = 0;
    for (const TensorUse& use : op_.uses) {
      const Tensor& tensor = graph_.tensor(use.tensor);
      const bool reads = pass_ == Pass::Forward || (pass_ == Pass::BackwardInput && wants_some_input());
      if (tensor.storage == WeightStorage::Own || !reads) continue;
      total += bytes_of(use) + elements_of(use) * tensor.stored_bits() / 8;
    }
    return total;
  }

  [[nodiscard]] std::vector<Range> loaded_ranges() const {
    std::vector<Range> ranges(ranges_.begin(), ranges_.end());
    if (load_.is_even() || load_.tokens < 0) return ranges;
    Range& tokens = ranges[static_cast<std::size_t>(load_.tokens)];
    const double length = static_cast<double>(tokens.length()) * load_.times;
    tokens.end = tokens.begin + static_cast<std::int64_t>(std::ceil(length - 1e-6));
    return ranges;
  }

  /// A mask cuts one end of what a query sees, a window the other one, too.
  void see_keys(MatrixSize& scores, double visible) const {
    const std::int64_t keys = pass_ == Pass::Forward ? scores.columns : scores.inner;
    scores.visible_keys = visible * static_cast<double>(keys);
    scores.cut_edges = op_.causal && attention_window(op_) > 0 ? 2 : 1;
  }

  [[nodiscard]] bool has_several_experts() const {
    return ranges_[static_cast<std::size_t>(*op_.separate.sorted)].length() > 1;
  }

  [[nodiscard]] double bytes_apart() const {
    const SeparateKernels& separate = op_.separate;
    const auto& own = pass_ == Pass::Forward          ? separate.bytes_forward
                      : pass_ == Pass::BackwardWeight ? separate.bytes_backward_weight
                                                      : separate.bytes_backward_input;
    return evaluate(own, ranges_) * load_.times;
  }

  void add_sums(KernelWork& work) const {
    const double read_and_written = 2 * static_cast<double>(bytes_per_element(sums_));
    if (pass_ == Pass::Forward || (pass_ == Pass::BackwardInput && !weights_ride_along())) return;
    for (const TensorUse& use : op_.uses) {
      if (!is_trained(use)) continue;
      work.gradient_bytes += bytes_of(use);
      work.sum_bytes += read_and_written * elements_of(use);
    }
  }

  [[nodiscard]] double elements_of(const TensorUse& use) const {
    return static_cast<double>(std::max<std::int64_t>(0, box_of(use, op_, ranges_).elements()));
  }

  [[nodiscard]] double bytes_of(const TensorUse& use) const {
    return elements_of(use) * static_cast<double>(bytes_per_element(graph_.tensor(use.tensor).type));
  }

  /// How often the pass runs over a use's box. Backward reads the outputs' gradients and what was saved,
  /// reads weights for the inputs' gradients, and writes each gradient once.
  [[nodiscard]] double passes_over(const TensorUse& use) const {
    if (pass_ == Pass::Forward) return use.forward_passes;
    double saved = use.saved ? use.backward_passes : 0;
    switch (use.role) {
      case Role::Output:
        return saved + (graph_.gets_gradient(use.tensor) ? use.backward_passes : 0);
      case Role::Weight:
        return passes_over_weight(use);
      case Role::Input:
        return saved + (pass_ == Pass::BackwardInput && wants(use) ? 1 : 0);
      case Role::Index:
      case Role::State:
        return saved;
    }
    return 0;
  }

  [[nodiscard]] double passes_over_weight(const TensorUse& use) const {
    if (pass_ == Pass::BackwardWeight) return is_trained(use) ? 1 : 0;
    const bool gradient = weights_ride_along() && is_trained(use);
    return (wants_some_input() ? use.backward_passes : 0) + (gradient ? 1 : 0);
  }

  const OperatorGraph& graph_;
  const Operator& op_;
  Pass pass_;
  std::span<const Range> ranges_;
  TokenLoad load_;
  DataType sums_;
};

/// Log-linear between the points, flat outside; 1 without a curve.
double kernel_efficiency(const std::vector<EfficiencyPoint>& curve, double flops) {
  if (curve.empty()) return 1;
  auto above =
      std::find_if(curve.begin(), curve.end(), [&](const auto& p) { return p.flops.value >= flops; });
  if (above == curve.begin()) return above->fraction;
  if (above == curve.end()) return curve.back().fraction;
  auto below = above - 1;
  double t = std::log(flops / below->flops.value) / std::log(above->flops.value / below->flops.value);
  return below->fraction + t * (above->fraction - below->fraction);
}

double product_efficiency(const DeviceKind& kind, DataType type, double flops) {
  if (const auto own = kind.product_rates.find(type); own != kind.product_rates.end())
    return kernel_efficiency(own->second.efficiency, flops) * own->second.sustained;
  // The curve is of products in 16 bits. One in fewer bits that takes as long has more FLOPs.
  const double alike = is_narrow(type) ? peak_rate(kind, DataType::BFloat16) / peak_rate(kind, type) : 1;
  return kernel_efficiency(kind.products.efficiency, flops * alike) * kind.products.sustained;
}

/// Point-wise operators run on the plain units, products on the matrix units.
DataType unit_type(const KernelWork& work, DataType type) { return work.matrix ? type : DataType::Float32; }

double compute_seconds(const KernelWork& work, DataType type, const DeviceKind& kind,
                       std::int32_t flash_attention) {
  if (work.flops <= 0) return 0;
  double at_peak = work.flops / peak_rate(kind, unit_type(work, type)).value;
  if (!work.matrix) return at_peak;
  if (const auto fused = fused_efficiency(*work.matrix, type, kind, flash_attention)) return at_peak / *fused;
  const double shape = kind.shape_losses ? matrix_efficiency(*work.matrix, matrix_units(kind, type)) : 1;
  return at_peak / (product_efficiency(kind, type, work.flops) * shape);
}

}  // namespace

DataType operand_type(const OperatorGraph& graph, const Operator& op) {
  for (Role role : {Role::Input, Role::Weight}) {
    for (const TensorUse& use : op.uses) {
      if (use.role == role) return graph.tensor(use.tensor).type;
    }
  }
  return op.uses.empty() ? DataType::Float32 : graph.tensor(op.uses.front().tensor).type;
}

KernelWork with_sums(KernelWork work) {
  constexpr double kExposed = 0.75;
  const double more = work.sum_bytes - work.gradient_bytes;
  work.bytes += (1 - kExposed) * more;
  work.exposed_bytes += kExposed * more;
  work.gradient_bytes = work.sum_bytes = 0;
  return work;
}

ShardKernel shard_kernel(const OperatorGraph& graph, const Operator& op, Pass pass,
                         std::span<const Range> ranges, const TokenLoad& load, DataType sums) {
  return PassOfShard(graph, op, pass, ranges, load, sums).kernel();
}

Seconds analytic_time(const KernelWork& work, DataType type, const DeviceKind& kind,
                      std::int32_t flash_attention) {
  const double bandwidth = kind.memory_bandwidth.value * kind.memory_efficiency;
  const double compute = compute_seconds(work, type, kind, flash_attention);
  return kind.launch_overhead +
         Seconds(std::max(compute, work.bytes / bandwidth) +
                 (work.exposed_bytes + work.cast_bytes + work.weight_cast_bytes + work.unpacked_bytes) /
                     bandwidth);
}

Seconds analytic_time_of_separate(const KernelWork& work, DataType type, const DeviceKind& kind,
                                  std::int32_t flash_attention) {
  const double bandwidth = kind.memory_bandwidth.value * kind.memory_efficiency;
  const double compute = compute_seconds(work, type, kind, flash_attention), memory = work.bytes / bandwidth;
  const double main = work.in_turn ? compute + memory : std::max(compute, memory);
  const double apart = work.bytes_apart + work.exposed_bytes + work.gradient_bytes + work.sum_bytes +
                       work.cast_bytes + work.weight_cast_bytes + work.unpacked_bytes;
  return kind.launch_overhead + Seconds(main + apart / bandwidth);
}

Seconds ideal_time(const KernelWork& work, DataType type, const DeviceKind& kind) {
  const double compute = work.flops / peak_rate(kind, unit_type(work, type)).value;
  return Seconds(std::max(compute, work.bytes / kind.memory_bandwidth.value));
}

}  // namespace pipesim
