#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "models/index_expr.h"
#include "sim/base/data_type.h"
#include "sim/base/ids.h"
#include "sim/base/units.h"

namespace pipesim {

/// The role of a tensor in an operator.
enum class Role : std::uint8_t {
  Input,   ///< gradient wanted if anything below has weights
  Weight,  ///< has a home layout, is synchronised and updated
  Index,   ///< needed like an input, has no gradient
  Output,
  State  ///< running statistics: a copy on every shard, no gradient, no traffic
};

/// The meaning of a tensor along a split factor that none of its dimensions follows (OPERATORS: "lacks").
enum class Lack : std::uint8_t {
  Summed,  ///< an input: every shard needs it whole, gradients are addends; an output: every shard holds one
           ///< addend
  Once,    ///< only the shard with coordinate 0 has it at all (bias beside a split reduction)
  Same     ///< every shard has it and gets the full gradient: copies, never added
};

/// How tokens get to their experts' nodes, and results back: each token goes to a node once, however many of
/// its experts are there, and is handed on inside the node; results are added up there before they leave. A
/// token's experts are on so many nodes at most (DeepSeek-AI, arXiv:2412.19437, sections 2.1.2 and 3.2.2).
/// Without a number of nodes a token is sent to each of its experts by itself.
struct NodeRoute {
  std::int64_t experts = 0, chosen = 0, nodes = 0;
  auto operator<=>(const NodeRoute&) const = default;
  /// On how many of `of` nodes, which have as many experts each, a token's experts are, on average: where it
  /// is as likely to go to any, and to any experts of those.
  [[nodiscard]] double nodes_of_a_token(std::int64_t of) const;
  /// The same of devices, of which each node has as many.
  [[nodiscard]] double devices_of_a_token(std::int64_t of_nodes, std::int64_t devices_of_a_node) const;
};

/// One tensor as one operator sees it.
struct TensorUse {
  TensorId tensor;
  Role role = Role::Input;
  std::vector<IndexExpr> dims;                      ///< one per dimension of the tensor
  std::vector<std::pair<FactorIndex, Lack>> lacks;  ///< factors not listed are Summed
  bool saved = false;                               ///< kept on the shard's device from forward to backward
  bool saved_for_weights = false;  ///< of these: only the weights' gradients need it, not the inputs'
  /// If saved: the other type in which forward writes what backward reads. None: the tensor itself is kept.
  std::optional<DataType> saved_as = {};
  /// With saved_as: a second run of forward reads what the first one wrote for backward, too, unless the
  /// tensor is made again itself.
  bool runs_again_from_saved = false;
  /// The narrower type in which what the operator makes travels: an output's data, or an input's gradient.
  /// 128 elements have a scale of four bytes. None: it is the tensor's type.
  std::optional<DataType> sent_as = {};
  std::optional<NodeRoute> route = {};  ///< of an output or input that has tokens by expert
  double forward_passes = 1;   ///< times forward runs over its bytes (batch norm reads x twice; an embedding
                               ///< table 0, the rows read are counted in Operator::extra_bytes)
  double backward_passes = 1;  ///< times backward runs over its bytes, if saved or needed there
  [[nodiscard]] Lack lack(FactorIndex factor) const;
  [[nodiscard]] bool follows(FactorIndex factor) const;
  /// Whether backward reads what the use, an input or index, brought to forward.
  [[nodiscard]] bool read_in_backward() const { return saved || role == Role::Index; }
  /// The part of the bytes of the tensor's own type that travels (sent_as).
  [[nodiscard]] double sent_share(DataType own) const;
  bool operator==(const TensorUse&) const = default;
};

enum class Pass : std::uint8_t { Forward, BackwardInput, BackwardWeight, Update };

/// coefficient · ∏ |f| over the listed factors, |f| = length of factor f inside the shard.
struct ProductTerm {
  double coefficient = 0;
  std::vector<FactorIndex> factors;
  bool operator==(const ProductTerm&) const = default;
};

/// An all-reduce inside a pass: a statistic whose factors `over` may be split.
struct InnerStep {
  enum class Reduce : std::uint8_t { Sum, Max };
  Pass pass = Pass::Forward;  ///< Forward, or BackwardInput for "backward"
  Reduce reduce = Reduce::Sum;
  std::vector<FactorIndex> over;  ///< an all-reduce among shards that differ only in these
  ProductTerm elements;           ///< per shard
  std::int64_t element_bytes = 4;
  double share_before =
      0.5;  ///< part of the pass's work that comes before this step; ascending within a pass
  bool operator==(const InnerStep&) const = default;
};

/// The matrix product that dominates the operator, for shape-dependent efficiency: rows × inner times inner ×
/// columns, `batch` times. Each is the product of the listed factors' lengths times the constant.
struct MatrixShape {
  std::vector<FactorIndex> batch, rows, columns, inner;
  std::int64_t rows_times = 1, columns_times = 1,
               inner_times = 1;  ///< parts of a size that no factor expresses
  bool fused = false;            ///< attention in one kernel: two products and a softmax between
  bool operator==(const MatrixShape&) const = default;
};

/// Scratch tensors that a shard has while one of its passes runs, all of one size: that of the largest of
/// equal parts of the rows, which the pass works on one after the other.
struct Workspace {
  ProductTerm rows;       ///< of all parts
  ProductTerm row_bytes;  ///< of a row of one tensor
  std::int64_t parts = 1;
  std::int64_t forward = 1, backward = 1;  ///< how many tensors there are at once
  /// One tensor more in each pass where a shard has only a part of this factor.
  std::optional<FactorIndex> one_more_if_split = {};
  /// The last tensor of backward is gone before backward's results come.
  bool makes_room = false;
  bool operator==(const Workspace&) const = default;
};

/// A kernel that does several operators at once, if these factors of a shard together make a multiple of some
/// number. Else frameworks run `more` operators, each with a module and a kernel of its own.
struct KernelOfMultiples {
  std::vector<FactorIndex> factors;
  std::int64_t multiple = 1;
  double more = 0;
  bool operator==(const KernelOfMultiples&) const = default;
};

/// An operator in a framework that runs one kernel after the other where pipesim has one.
struct SeparateKernels {
  double forward = 1, backward_input = 1, backward_weight = 1;  ///< how many it launches for a pass
  /// The factor that counts experts, where frameworks launch the kernels of each apart.
  std::optional<FactorIndex> experts = {};
  /// The factor that counts experts, where the bytes below sort the tokens of a device's experts, if it has
  /// several (Runtime::sorts_tokens()).
  std::optional<FactorIndex> sorted = {};
  /// Its forward pass depends on sizes that the device finds out, see Runtime::reads_token_counts.
  bool reads_counts = false;
  std::optional<KernelOfMultiples> fused = {};
  /// What they move beside the bytes that the operator counts. While they do, nothing is computed.
  std::vector<ProductTerm> bytes_forward, bytes_backward_input, bytes_backward_weight;
  bool in_turn = false;  ///< products and the operator's other bytes take turns, too
  bool norm = false;     ///< backward also sums over rows for scale and shift (Runtime::norm_backward)
  bool operator==(const SeparateKernels&) const = default;
};

/// Operands that are brought into a narrower type before they are multiplied. One kernel finds the largest
/// magnitude of an operand, a second one writes it scaled by that, both as it lies and transposed, since the
/// product of another pass reads it transposed.
struct Casts {
  DataType type = DataType::Float8;  ///< in which all three products multiply
  /// Bytes that these kernels move: of the input and the weight in forward, of the result's gradient in the
  /// first of the backward passes.
  std::vector<ProductTerm> input, weight, gradient;
  bool operator==(const Casts&) const = default;
};

/// Times measured for the whole, unsplit operator (an imported profile); they override the analytic model and
/// scale with the shard's share of the work.
struct MeasuredTime {
  Seconds forward, backward;
  bool operator==(const MeasuredTime&) const = default;
};

/// Attribute values as they stand in a model file: integers, integer lists, reals, words.
using AttributeValue = std::variant<std::int64_t, double, std::string, std::vector<std::int64_t>>;
using Attributes = std::map<std::string, AttributeValue>;

/// An operator: index ranges, which tensors follow which, how much work. Everything else (shards,
/// communication, memory) is derived from this.
struct Operator {
  std::string name;    ///< unique in the graph
  std::string kind;    ///< "linear", "conv2d", … as in a model file
  std::string repeat;  ///< operators with equal, non-empty text are repeats of one another (layer 0's "ffn",
                       ///< layer 1's …)
  Attributes attributes;
  std::vector<Factor> factors;
  std::vector<TensorUse> uses;  ///< inputs and indices in order, then weights, states, outputs
  std::vector<InnerStep> inner_steps;
  std::vector<ProductTerm> flops_forward, flops_backward_input,
      flops_backward_weight;                                           ///< sums of terms, per shard
  std::vector<ProductTerm> bytes_forward_extra, bytes_backward_extra;  ///< beside the uses' own bytes
  std::vector<ProductTerm> saved_extra_bytes;  ///< kept for backward, which reads them once, beside saved
                                               ///< uses (arg indices, row statistics)
  /// Products of forward whose results are not kept: backward makes them again. In an operator that has some,
  /// only these count as model FLOPs.
  std::vector<ProductTerm> remade_products;
  std::optional<Workspace> workspace;
  std::optional<MatrixShape> matrix;  ///< none: bound by bytes
  /// All matrix products of forward, where `matrix` is only the largest of several.
  std::vector<ProductTerm> products_forward;
  /// The (query, key) factors of a causal mask: work counts only the visible share of the shard's box.
  std::optional<std::pair<FactorIndex, FactorIndex>> causal;
  /// (Query, key) factors, equally long: devices that divide queries may pass parts of the keys round a ring
  /// instead of holding all of them.
  std::optional<std::pair<FactorIndex, FactorIndex>> rotation;
  /// The number of parts that set the order of positions (ZigzagOrder), for operators that know positions.
  std::int64_t zigzag = 1;
  SeparateKernels separate;
  std::optional<Casts> casts;  ///< none: products multiply in the operands' type
  std::optional<MeasuredTime> measured;
  bool moves_nothing = false;  ///< reshape of a contiguous box: no kernel at all
  bool operator==(const Operator&) const = default;

  [[nodiscard]] FactorIndex factor(const std::string& name) const;  ///< InternalError if there is none
};

}  // namespace pipesim
