#include "models/operator_draft.h"
#include "models/operators/families.h"

namespace pipesim {
namespace {

/// The short convolution in front of scans and linear attention (Gu and Dao, 2023, section 3.4): each channel
/// by itself, from its last few positions. Its kernels read channels last, as products write them. Backward
/// makes the convolution again where an activation follows.
void build_causal_convolution(OperatorDraft& draft) {
  draft.require_rank(0, 3, 8, "[b, s, c…]");
  const auto& x = draft.shape(0);
  const FactorIndex b = draft.factor("b", FactorKind::Sample, x[0]);
  const FactorIndex s = draft.factor("s", FactorKind::Attribute, x[1], true);
  std::vector<FactorIndex> channels;
  for (std::size_t i = 2; i < x.size(); ++i)
    channels.push_back(draft.factor(numbered("c", i - 2), FactorKind::Parameter, x[i]));
  std::vector<FactorIndex> elements{b, s};
  elements.insert(elements.end(), channels.begin(), channels.end());
  const std::int64_t kernel = draft.integer("kernel");
  std::vector<IndexExpr> seen = draft.axes(elements);
  seen[1] = IndexExpr::window(s, x[1], 1, kernel, 1, kernel - 1);
  draft.input(0, seen).saved = true;
  std::vector<IndexExpr> taps = draft.axes(channels);
  taps.push_back(IndexExpr::whole(kernel));
  draft.weight("w", taps);
  const double bias = draft.flag("bias") ? 1 : 0, silu = draft.flag("silu") ? 1 : 0;
  if (draft.flag("bias")) draft.weight("b", draft.axes(channels));
  draft.output("", draft.axes(elements));
  const double products = 2 * static_cast<double>(kernel);
  draft.op.flops_forward = {{products + bias + 5 * silu, elements}};
  draft.op.flops_backward_input = {{2 * products + bias + silu * (products + 8), elements}};
}

}  // namespace

std::vector<OperatorKind> causal_convolution_kinds() {
  return {{"causal_convolution",
           "each channel's sum over its last few positions, weighted; before the first position are zeros",
           "x[b, s, c…]",
           1,
           1,
           {AttributeSchema::integer("kernel", "positions that a result sees, its own among them"),
            AttributeSchema::flag("bias", true, "adds a learned bias for each channel"),
            AttributeSchema::flag("silu", false, "silu follows, in the same kernel")},
           {{{"x", {64, 128, 512}}}, {{"kernel", 4}, {"silu", 1}}},
           build_causal_convolution}};
}

}  // namespace pipesim
