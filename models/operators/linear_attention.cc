#include <algorithm>
#include <cmath>

#include "models/operator_draft.h"
#include "models/operators/families.h"

namespace pipesim {
namespace {

/// Kernels in chunks, one after the other, as in flash-linear-attention: norms of q and k, sums of decays,
/// products of keys within chunks, their inverses, the two products with these, states, results. Backward
/// keeps the inverses and what decays are in sum; it makes the two products and the states again. Then come
/// the gradients of v within chunks, of states, of q, k and of the products, and of what made these, and
/// sums.
void set_kernels_of_delta_rule(OperatorDraft& draft, double chunk, double depth, double width,
                               bool by_channel) {
  constexpr FactorIndex b = 0, s = 1, g = 2, r = 3, e = 4;
  Operator& op = draft.op;
  op.separate.forward = 8;
  op.separate.backward_input = 11;
  const std::vector<FactorIndex> groups{b, s, g}, heads{b, s, g, r}, values{b, s, g, r, e};
  const double element = draft.element_bytes(), decays = by_channel ? depth : 1;
  op.saved_extra_bytes = {{(by_channel ? 2 : 1) * chunk * element, heads}, {4 * decays, heads}};
  op.saved_extra_bytes.push_back({2 * 4, groups});  // of norms
  // Products are written in float32 and read to be inverted. Inverses, what they multiply, and states are
  // written and read.
  op.bytes_forward_extra = {{(2 * 4 + 2 * element) * chunk + 2 * element * depth + 5 * 4 * decays, heads},
                            {4 * element + 2 * element * depth / chunk, values}};
  op.bytes_backward_extra = {{element * chunk + 6 * element * depth + 6 * 4 * decays, heads},
                             {9 * element + 4 * element * depth / chunk, values}};
  // States of all chunks, in backward their gradients, too. Beside them are two products with inverses and
  // the new values, and in backward the gradients of all operands, by as many states as these are large.
  const auto states = [&](double columns) {
    return static_cast<std::int64_t>(std::ceil(chunk * columns / (depth * width)));
  };
  op.workspace = Workspace{.rows = {1 / chunk, {b, s}},
                           .row_bytes = {element * depth, {g, r, e}},
                           .forward = 1 + states(depth + 2 * width),
                           .backward = 2 + states(4 * depth + 4 * width)};
  // Each kernel reads its operands: forward q, k and v, backward these and the result's gradient.
  op.uses[0].forward_passes = 3, op.uses[0].backward_passes = 4;
  op.uses[1].forward_passes = 6, op.uses[1].backward_passes = 7;
  op.uses[2].backward_passes = 2;
  op.uses.back().backward_passes = 3;
}

/// The gated delta rule (Yang, Kautz and Hatamizadeh, 2024, arXiv:2412.06464, section 3), with a decay for
/// each channel of the keys as in Kimi Delta Attention (arXiv:2510.26692, section 3): q and k have length 1,
/// log α_t = −exp(a) · softplus(step_t + step_bias), S_t = α_t S_{t−1} + β_t k_t (v_t − (α_t S_{t−1})ᵀ
/// k_t)ᵀ, y_t = S_tᵀ q_t / √d with states S[d, e]. The work is that of chunks, whose products of
/// reflections are written as I − WYᵀ (section 3.3). All columns of a state are alike, so e may be split. A
/// column needs all of its rows.
void build_gated_delta_rule(OperatorDraft& draft) {
  draft.require_rank(0, 4, 4, "q[b, s, g, d]");
  draft.require_rank(2, 5, 5, "v[b, s, g, r, e]");
  draft.require_rank(3, 4, 5, "step[b, s, g, r] or step[b, s, g, r, d]");
  const auto& v = draft.shape(2);
  const std::int64_t width = draft.shape(0)[3], length = std::min(draft.integer("chunk"), v[1]);
  const FactorIndex b = draft.factor("b", FactorKind::Sample, v[0]);
  const FactorIndex s = draft.unsplit_factor("s", FactorKind::Attribute, v[1]);
  const FactorIndex g = draft.factor("g", FactorKind::Attribute, v[2]);
  const FactorIndex r = draft.factor("r", FactorKind::Attribute, v[3]);
  const FactorIndex e = draft.factor("e", FactorKind::Parameter, v[4]);
  const bool by_channel = draft.rank(3) == 5;
  const auto with_channels = [&](std::vector<IndexExpr> dims, bool wide) {
    if (wide) dims.push_back(IndexExpr::whole(width));
    return dims;
  };
  for (const std::size_t i : {0, 1}) draft.input(i, with_channels(draft.axes({b, s, g}), true)).saved = true;
  draft.input(2, draft.axes({b, s, g, r, e})).saved = true;
  draft.input(3, with_channels(draft.axes({b, s, g, r}), by_channel)).saved = true;
  draft.input(4, draft.axes({b, s, g, r})).saved = true;
  draft.weight("a", draft.axes({g, r}));
  draft.weight("step_bias", with_channels(draft.axes({g, r}), by_channel));
  draft.output("", draft.axes({b, s, g, r, e}));

  const auto chunk = static_cast<double>(length), d = static_cast<double>(width);
  const std::vector<FactorIndex> groups{b, s, g}, heads{b, s, g, r}, values{b, s, g, r, e};
  // Within a chunk k with k, the inverse of that triangle, this with k and with v, q with k, and that with
  // the new values; k with the state, the new values into it, and q with it.
  draft.op.products_forward = {{6 * chunk * d + chunk * chunk / 3, heads}, {4 * chunk + 6 * d, values}};
  draft.op.flops_forward = draft.op.products_forward;
  const double decays = 15 * (by_channel ? d : 1);
  draft.op.flops_forward.insert(draft.op.flops_forward.end(),
                                {{14 * chunk + 4 * d + decays, heads}, {6 * d, groups}, {4, values}});
  // The inverse with k and v again, and states. Of q with k the product for decays and for v, and two
  // gradients; of the inverse's products the gradients of both factors, from these that of the triangle; of
  // that k with k for decays, and two gradients. Of states: three products on the way back, and the
  // gradients of q, k and of what the inverse made.
  draft.op.flops_backward_input = {{20 * chunk * d + 4 * chunk * chunk, heads},
                                   {10 * chunk + 16 * d, values},
                                   {40 * chunk + 12 * d + 2 * decays, heads},
                                   {12 * d, groups},
                                   {8, values}};
  draft.op.matrix = MatrixShape{{b, g, r}, {s}, {e}, {}, 1, 1, width};
  set_kernels_of_delta_rule(draft, chunk, d, static_cast<double>(v[4]), by_channel);
}

}  // namespace

std::vector<OperatorKind> linear_attention_kinds() {
  return {
      {"gated_delta_rule",
       "linear attention whose states [d, e] decay by exp(−exp(a) · softplus(step + step_bias)) and replace "
       "a key's value by parts of beta; q and k are normalised",
       "q[b, s, g, d], k[b, s, g, d], v[b, s, g, r, e], step[b, s, g, r] or step[b, s, g, r, d], "
       "beta[b, s, g, r] from 0 to 1",
       5,
       5,
       {AttributeSchema::integer("chunk", "positions that are computed as one matrix product", 64)},
       {{{"q", {64, 512, 8, 128}},
         {"k", {64, 512, 8, 128}},
         {"v", {64, 512, 8, 2, 128}},
         {"step", {64, 512, 8, 2}},
         {"beta", {64, 512, 8, 2}}},
        {}},
       build_gated_delta_rule}};
}

}  // namespace pipesim
