#include <fmt/format.h>

#include <algorithm>

#include "models/operator_draft.h"
#include "models/operators/families.h"

namespace pipesim {
namespace {

struct Activation {
  const char* name;
  double flops;       ///< operations per element of a plain kernel, the same backward
  bool saves_output;  ///< else the input: the derivative cannot be had from the output
};
constexpr Activation activations[] = {{"relu", 1, true}, {"gelu", 8, false},   {"silu", 5, false},
                                      {"tanh", 5, true}, {"sigmoid", 4, true}, {"relu2", 2, false}};

const Activation& activation_named(const std::string& name) {
  for (const Activation& a : activations) {
    if (a.name == name) return a;
  }
  throw std::out_of_range("no activation " + name);
}

void build_activation(OperatorDraft& draft) {
  const Activation& activation = activation_named(draft.op.kind);
  const auto dims = plain_factors(draft, draft.shape(0));
  draft.input(0, draft.axes(dims)).saved = !activation.saves_output;
  draft.output("", draft.axes(dims)).saved = activation.saves_output;
  draft.op.flops_forward = {{activation.flops, dims}};
  draft.op.flops_backward_input = {{activation.flops, dims}};
}

void build_dropout(OperatorDraft& draft) {
  const auto dims = plain_factors(draft, draft.shape(0));
  draft.input(0, draft.axes(dims));
  draft.output("", draft.axes(dims));
  draft.op.flops_forward = {{2, dims}};
  draft.op.flops_backward_input = {{1, dims}};
  if (draft.added_flag("keep_mask")) draft.op.saved_extra_bytes = {{1, dims}};
}

/// Dimensions of an operand that numpy's rule stretches to `shape`: aligned at the end, missing or of
/// length 1.
std::vector<IndexExpr> broadcast_dims(const OperatorDraft& draft, const std::vector<FactorIndex>& dims) {
  const auto& full = draft.shape(0);
  const auto& narrow = draft.shape(1);
  const auto refuse = [&] {
    draft.fail(fmt::format("input 1 has shape {}, allowed: {}, its last dimensions, or 1 for some of them",
                           to_text(narrow), to_text(full)));
  };
  if (narrow.size() > full.size()) refuse();
  std::vector<IndexExpr> exprs;
  const std::size_t missing = full.size() - narrow.size();
  for (std::size_t i = 0; i < narrow.size(); ++i) {
    const bool stretched = narrow[i] == 1;
    if (!stretched && narrow[i] != full[missing + i]) refuse();
    exprs.push_back(stretched ? IndexExpr::whole(1) : draft.axis(dims[missing + i]));
  }
  return exprs;
}

struct BinaryFunction {
  const char* name;
  const char* text;
  double flops, flops_backward;  ///< per element of x
  bool saves_operands;           ///< else the slopes are constant
};
constexpr BinaryFunction binary_functions[] = {{"add", "x + y", 1, 1, false},
                                               {"sub", "x − y", 1, 1, false},
                                               {"mul", "x · y", 1, 2, true},
                                               {"div", "x / y", 1, 4, true},
                                               {"maximum", "the larger of x and y", 1, 2, true},
                                               {"minimum", "the smaller of x and y", 1, 2, true}};

void build_binary(OperatorDraft& draft) {
  const auto* function =
      std::ranges::find_if(binary_functions, [&](const auto& f) { return draft.op.kind == f.name; });
  const auto dims = plain_factors(draft, draft.shape(0));
  draft.input(0, draft.axes(dims)).saved = function->saves_operands;
  draft.input(1, broadcast_dims(draft, dims)).saved = function->saves_operands;
  draft.output("", draft.axes(dims));
  draft.op.flops_forward = {{function->flops, dims}};
  draft.op.flops_backward_input = {{function->flops_backward, dims}};
}

// The result of the activation is in no tensor, so backward computes it again from x, as it needs x anyway.
void build_swiglu(OperatorDraft& draft) {
  const auto dims = plain_factors(draft, draft.shape(0));
  if (draft.shape(1) != draft.shape(0))
    draft.fail(fmt::format("input 1 has shape {}, allowed: {}, that of input 0", to_text(draft.shape(1)),
                           to_text(draft.shape(0))));
  const bool narrow = draft.added_word("keeps", "own") == "float8";
  for (const std::size_t operand : {std::size_t{0}, std::size_t{1}}) {
    TensorUse& use = draft.input(operand, draft.axes(dims));
    use.saved = true;
    if (narrow) use.saved_as = DataType::Float8, use.runs_again_from_saved = true;
  }
  if (narrow) draft.op.bytes_forward_extra = {{2, dims}};  // the copies, written by the same kernel
  // Forward is the activation and a product; backward is the slopes of both, and the activation once more.
  const Activation& gate = activation_named(draft.added_word("activation", "silu"));
  double forward = gate.flops + 1, backward = 2 * gate.flops + 2;
  if (draft.inputs() > 2) {
    std::vector<std::int64_t> rows = draft.shape(0);
    rows.back() = 1;
    if (draft.shape(2) != rows)
      draft.fail(fmt::format("input 2 has shape {}, allowed: {}, a weight for each row of input 0",
                             to_text(draft.shape(2)), to_text(rows)));
    std::vector<IndexExpr> weights = draft.axes(dims);
    weights.back() = IndexExpr::whole(1);
    draft.input(2, weights).saved = true;
    forward += 1, backward += 4;  // the gradients of both factors are weighted; the weight's is a sum
  }
  draft.output("", draft.axes(dims));
  draft.op.flops_forward = {{forward, dims}};
  draft.op.flops_backward_input = {{backward, dims}};
}

}  // namespace

AttributeSchema activation_attribute() {
  std::vector<std::string> words{"none"};
  for (const Activation& a : activations) words.emplace_back(a.name);
  return AttributeSchema::word("activation", "function applied to the result in the same kernel", words,
                               "none");
}

void fuse_activation(OperatorDraft& draft, const std::string& activation,
                     const std::vector<FactorIndex>& elements, const std::vector<FactorIndex>& partial) {
  if (activation == "none") return;
  const Activation& function = activation_named(activation);
  // f(Σ) is not Σ f: a shard that holds one addend only must not apply it.
  for (const FactorIndex f : partial) draft.at(f).max_degree = 1;
  draft.op.flops_forward.push_back({function.flops, elements});
  draft.op.flops_backward_input.push_back({function.flops, elements});
  SeparateKernels& separate = draft.op.separate;  // reads and writes; backward reads what was kept, too
  ++separate.forward, ++separate.backward_input;
  separate.bytes_forward.push_back({2 * draft.element_bytes(), elements});
  separate.bytes_backward_input.push_back({3 * draft.element_bytes(), elements});
  if (function.saves_output) {
    draft.op.uses.back().saved = true;
  } else {
    draft.op.saved_extra_bytes.push_back({draft.element_bytes(), elements});
  }
}

std::vector<OperatorKind> elementwise_kinds() {
  std::vector<OperatorKind> kinds;
  for (const Activation& a : activations) {
    kinds.push_back({a.name,
                     a.name == std::string_view("relu2")
                         ? "the square of relu of every element (So et al., 2021; arXiv:2109.08668)"
                         : fmt::format("{} of every element", a.name),
                     "x[any dims]",
                     1,
                     1,
                     {},
                     {{{"x", {64, 128, 512}}}, {}},
                     build_activation});
  }
  kinds.push_back(
      {"dropout",
       "zeroes elements at random; the mask depends on the element's place in the global batch only",
       "x[any dims]",
       1,
       1,
       {AttributeSchema::real("rate", "share of elements dropped", 0, 1),
        AttributeSchema::flag("keep_mask", false,
                              "counts a mask of a byte an element, kept for backward, as PyTorch does; else "
                              "it is drawn again")},
       {{{"x", {64, 128, 512}}}, {{"rate", 0.1}}},
       build_dropout});
  kinds.push_back(
      {"swiglu",
       "silu(x) · y, or another activation of x, times a weight for each row if there is one, in one "
       "kernel, which keeps its operands (Shazeer, 2020; arXiv:2002.05202)",
       "x[any dims], y[as x], optionally w[as x, the last dim 1]",
       2,
       3,
       {AttributeSchema::word("activation", "function of x", {"silu", "gelu", "relu2", "sigmoid"}, "silu"),
        AttributeSchema::word("keeps", "type in which it keeps x and y for backward", {"own", "float8"},
                              "own")},
       {{{"x", {64, 128, 512}}, {"y", {64, 128, 512}}}, {}},
       build_swiglu});
  for (const BinaryFunction& function : binary_functions) {
    kinds.push_back({function.name,
                     fmt::format("{}; y is broadcast where its dims are missing or 1", function.text),
                     "x[any dims], y[x's last dims, or 1 for some]",
                     2,
                     2,
                     {},
                     {{{"x", {64, 128, 512}}, {"y", {64, 128, 512}}}, {}},
                     build_binary});
  }
  return kinds;
}

}  // namespace pipesim
