#include <fmt/format.h>

#include "models/operator_draft.h"
#include "models/operators/families.h"

namespace pipesim {
namespace {

/// What backward reads: nothing, the input, or the result where the slope can be had from it.
enum class Kept : std::uint8_t { Nothing, Input, Result };

struct PointwiseFunction {
  const char* name;
  const char* help;
  double flops;  ///< operations per element of a plain kernel, the same backward
  Kept kept;
};

/// Functions without attributes.
constexpr PointwiseFunction plain_functions[] = {
    {"relu6", "x between 0 and 6", 2, Kept::Input},
    {"hardswish", "x · hardsigmoid(x)", 5, Kept::Input},
    {"hardsigmoid", "x / 6 + 1/2, between 0 and 1", 3, Kept::Input},
    {"mish", "x · tanh(softplus(x))", 12, Kept::Input},
    {"softplus", "ln(1 + exp(x))", 6, Kept::Input},
    {"quick_gelu", "x · sigmoid(1.702 x)", 6, Kept::Input},
    {"exp", "exponential of every element", 4, Kept::Result},
    {"log", "natural logarithm of every element", 4, Kept::Input},
    {"sqrt", "square root of every element", 2, Kept::Result},
    {"reciprocal", "1 / x", 2, Kept::Result},
    {"abs", "absolute value of every element", 1, Kept::Input},
    {"sin", "sine of every element", 4, Kept::Input},
    {"cos", "cosine of every element", 4, Kept::Input},
    {"erf", "error function of every element", 8, Kept::Input}};

void build_function(OperatorDraft& draft, double flops, Kept kept) {
  const auto dims = plain_factors(draft, draft.shape(0));
  draft.input(0, draft.axes(dims)).saved = kept == Kept::Input;
  draft.output("", draft.axes(dims)).saved = kept == Kept::Result;
  draft.op.flops_forward = draft.op.flops_backward_input = {{flops, dims}};
}

void build_plain_function(OperatorDraft& draft) {
  for (const PointwiseFunction& function : plain_functions) {
    if (draft.op.kind == function.name) return build_function(draft, function.flops, function.kept);
  }
}

void build_leaky_relu(OperatorDraft& draft) { build_function(draft, 2, Kept::Input); }
void build_elu(OperatorDraft& draft) { build_function(draft, 6, Kept::Input); }
void build_affine(OperatorDraft& draft) { build_function(draft, 2, Kept::Nothing); }
void build_power(OperatorDraft& draft) { build_function(draft, 8, Kept::Input); }

void build_clip(OperatorDraft& draft) {
  if (draft.real("low") > draft.real("high")) {
    draft.fail(fmt::format("attribute \"low\" is {} and \"high\" {}, allowed: low up to high",
                           draft.real("low"), draft.real("high")));
  }
  build_function(draft, 2, Kept::Input);
}

}  // namespace

std::vector<OperatorKind> pointwise_kinds() {
  using Schema = AttributeSchema;
  constexpr double most = 3e38;  // of float32
  const OperatorExample::Input x{"x", {64, 128, 512}};
  const auto kind = [&](const std::string& name, const std::string& help, std::vector<Schema> attributes,
                        const Attributes& example, void (*build)(OperatorDraft&)) {
    return OperatorKind{name, help, "x[any dims]", 1, 1, std::move(attributes), {{x}, example}, build};
  };
  std::vector<OperatorKind> kinds = {
      kind("leaky_relu", "x, or slope · x below 0",
           {Schema::real("slope", "of elements below 0", -most, most, 0.01)}, {}, build_leaky_relu),
      kind("elu", "x, or alpha · (exp(x) − 1) below 0",
           {Schema::real("alpha", "where it goes far below 0, negated", -most, most, 1.0)}, {}, build_elu),
      kind("clip", "x between two bounds",
           {Schema::real("low", "smaller elements become it", -most, most, -most),
            Schema::real("high", "larger elements become it", -most, most, most)},
           {{"low", 0.0}, {"high", 1.0}}, build_clip),
      kind("affine", "factor · x + offset",
           {Schema::real("factor", "of every element", -most, most, 1.0),
            Schema::real("offset", "added to every element", -most, most, 0.0)},
           {{"factor", 0.125}}, build_affine),
      kind("power", "x to a fixed power", {Schema::real("exponent", "the power", -most, most)},
           {{"exponent", 2.0}}, build_power)};
  for (const PointwiseFunction& function : plain_functions)
    kinds.push_back(kind(function.name, function.help, {}, {}, build_plain_function));
  return kinds;
}

}  // namespace pipesim
