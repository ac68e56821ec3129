#include "costmodel/training_work.h"

#include <algorithm>
#include <cmath>
#include <utility>
#include <variant>
#include <vector>

#include "costmodel/cost_model.h"
#include "costmodel/matrix_efficiency.h"
#include "costmodel/shard_kernel.h"
#include "models/box.h"
#include "models/causal_mask.h"
#include "models/operator_draft.h"

namespace pipesim {
namespace {

bool has_flag(const Operator& op, const char* name) {
  const auto found = op.attributes.find(name);
  if (found == op.attributes.end()) return false;
  const auto* value = std::get_if<std::int64_t>(&found->second);
  return value != nullptr && *value != 0;
}

// Attention that writes its scores computes all of them (Operator::causal is not set), and needs half.
bool is_causal(const Operator& op) {
  return op.causal.has_value() || (op.matrix->fused && has_flag(op, "causal"));
}

// Pairs that are less than a window apart in a square of queries and keys.
double pairs_within(double length, double window) {
  const double left_out = std::max(0.0, length - window);
  return length * length - left_out * left_out;
}

// What part of the pairs of `length` queries and as many keys counts.
double counted_share(const Operator& op, double length, const FlopsCounting& counting) {
  if (!is_causal(op)) return 1;
  double share = 1;
  if (counting.documents_apart && has_narrow_mask(op)) {
    const auto length_or_all = [&](std::int64_t given) {
      return given > 0 ? std::min(static_cast<double>(given), length) : length;
    };
    const double document = length_or_all(document_length(op)), window = length_or_all(attention_window(op));
    const double whole = std::floor(length / document), rest = length - whole * document;
    share = (whole * pairs_within(document, window) + pairs_within(rest, window)) / (length * length);
  }
  return counting.causal == FlopsCounting::CausalAttention::Half ? share / 2 : share;
}

// Without point-wise work. Attention multiplies queries by keys, and what the softmax makes of that
// by values.
double forward_products(const OperatorGraph& graph, const Operator& op, const FlopsCounting& counting) {
  if (!op.products_forward.empty())
    return evaluate(op.products_forward, whole_ranges(op)) * counted_share(op, 1, counting);
  constexpr std::size_t kValues = 2;  // the third input of attention, [b, t, g, e]
  const MatrixSize size = matrix_size(*op.matrix, Pass::Forward, whole_ranges(op));
  const auto pairs = 2 * static_cast<double>(size.batch) * static_cast<double>(size.rows) *
                     static_cast<double>(size.columns);
  const auto inner = static_cast<double>(size.inner);
  if (!op.matrix->fused) return pairs * inner;
  const auto width = static_cast<double>(graph.tensor(op.uses[kValues].tensor).shape.back());
  return pairs * (inner + width) * counted_share(op, static_cast<double>(size.columns), counting);
}

bool is_frozen(const OperatorGraph& graph, const Operator& op) {
  const auto is_weight = [](const TensorUse& use) { return use.role == Role::Weight; };
  return std::ranges::any_of(op.uses, is_weight) && std::ranges::none_of(op.uses, [&](const TensorUse& use) {
           return is_weight(use) && graph.wants_gradient(use.tensor);
         });
}

// What chooses has no gradient, whatever it was made from.
bool makes_choices(const OperatorGraph& graph, const Operator& op) {
  return chooses(graph.tensor(op.uses.back().tensor).type);
}

// Experts compute on buffers of a fixed capacity, which rows fill up or do not fit into. By tensor, how many
// rows tokens were routed to for each row that there is.
class RoutedRows {
 public:
  explicit RoutedRows(const OperatorGraph& graph) : graph_(graph), of_tensors_(graph.tensors().size(), 1) {}

  // Operators come in topological order.
  double of(const Operator& op) {
    double rows = 1;
    for (const TensorUse& use : op.uses) {
      if (use.role == Role::Input && of_tensors_[use.tensor.index()] != 1)
        rows = of_tensors_[use.tensor.index()];
    }
    if (op.kind == "moe_combine") rows = 1;
    if (op.kind == "moe_dispatch") {
      const auto elements = [&](std::size_t use) {
        return static_cast<double>(graph_.tensor(op.uses[use].tensor).elements());
      };
      constexpr std::size_t kTokens = 0, kSlots = 2;
      const auto choices = static_cast<double>(std::get<std::int64_t>(op.attributes.at("top_k")));
      rows = choices * elements(kTokens) / elements(kSlots);
    }
    for (const TensorUse& use : op.uses) {
      if (use.role == Role::Output) of_tensors_[use.tensor.index()] = rows;
    }
    return rows;
  }

 private:
  const OperatorGraph& graph_;
  std::vector<double> of_tensors_;
};

double kernel_flops(const OperatorGraph& graph, const Operator& op, Pass pass) {
  if (!op.measured) return shard_kernel(graph, op, pass, whole_ranges(op)).work.flops;
  Operator analytic = op;  // kernels of which a profile tells the time have no work
  analytic.measured.reset();
  return shard_kernel(graph, analytic, pass, whole_ranges(op)).work.flops;
}

}  // namespace

TrainingWork training_work(const OperatorGraph& graph, const FlopsCounting& counting,
                           const std::function<bool(OperatorId)>& again) {
  constexpr double kPasses = 3;  // forward, gradients of inputs, gradients of weights
  TrainingWork work;
  RoutedRows routed(graph);
  for (std::size_t i = 0; i < graph.operators().size(); ++i) {
    const Operator& op = graph.operators()[i];
    if (op.kind == "cross_entropy" || op.kind == "linear_cross_entropy") {
      const std::int64_t labels = graph.tensor(op.uses[1].tensor).elements();
      if (labels > graph.batch()) work.tokens = std::max(work.tokens, labels);
    }
    const double rows = routed.of(op);
    if (!op.matrix) continue;
    work.causal = work.causal || is_causal(op);
    if (counting.routers || !has_flag(op, "router")) {
      const double passes = makes_choices(graph, op) ? 1 : is_frozen(graph, op) ? kPasses - 1 : kPasses;
      work.model_flops += passes * rows * forward_products(graph, op, counting);
    }
    const double forward = kernel_flops(graph, op, Pass::Forward);
    work.hardware_flops += forward + kernel_flops(graph, op, Pass::BackwardInput) +
                           kernel_flops(graph, op, Pass::BackwardWeight);
    if (again && again(OperatorId(i))) work.hardware_flops += forward;
  }
  return work;
}

PeakRate peak_rate(const OperatorGraph& graph, const Topology& topology) {
  DataType own = DataType::Float32, products = own;
  bool found = false;
  for (const Operator& op : graph.operators()) {
    if (!op.matrix) continue;
    if (!std::exchange(found, true)) own = products = graph.tensor(op.uses.front().tensor).type;
    if (!op.casts) continue;
    products = op.casts->type;
    break;
  }
  PeakRate peak;
  for (std::size_t d = 0; d < topology.num_devices(); ++d) {
    const DeviceKind& kind = topology.kind(DeviceId(d));
    // A device without a rate of it has no products of that type.
    const DataType type = rate_type(kind, kind.peak.contains(products) ? products : own);
    peak.all = FlopsPerSecond(peak.all.value + kind.peak.at(type).value);
    if (std::ranges::find(peak.types, type) == peak.types.end()) peak.types.push_back(type);
  }
  return peak;
}

}  // namespace pipesim
