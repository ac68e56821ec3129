#include <algorithm>

#include "models/operator_draft.h"
#include "models/operators/families.h"

namespace pipesim {
namespace {

/// The selective scan of Mamba (Gu and Dao, 2023, section 3.2 and algorithm 2): for every channel d and state
/// n, h_t = exp(delta_t · A) · h_{t−1} + delta_t · b_t · x_t with A = −exp(a), y_t = Σ_n c_t · h_t + skip ·
/// x_t. Positions depend on one another. Backward computes the states again.
void build_selective_scan(OperatorDraft& draft) {
  draft.require_rank(0, 3, 3, "x[b, s, d]");
  draft.require_rank(2, 3, 3, "b[b, s, n]");
  const auto& x = draft.shape(0);
  const FactorIndex b = draft.factor("b", FactorKind::Sample, x[0]);
  const FactorIndex s = draft.unsplit_factor("s", FactorKind::Attribute, x[1]);
  const FactorIndex d = draft.factor("d", FactorKind::Parameter, x[2]);
  const FactorIndex n = draft.factor("n", FactorKind::Reduction, draft.shape(2)[2]);
  for (const std::size_t i : {0, 1}) draft.input(i, draft.axes({b, s, d})).saved = true;
  for (const std::size_t i : {2, 3}) draft.input(i, draft.axes({b, s, n})).saved = true;
  draft.weight("a", draft.axes({d, n}));
  draft.weight("skip", draft.axes({d})).lacks = {{n, Lack::Once}};
  draft.output("", draft.axes({b, s, d}));
  // Per state: the product and its exponential 5, what comes in 2, the new state 2, what goes out 2.
  draft.op.flops_forward = {{11, {b, s, d, n}}, {2, {b, s, d}}};
  // The states again 9, and the gradients of c 2, of the state 3, of b 3, of x and delta 6, of a 3.
  draft.op.flops_backward_input = {{26, {b, s, d, n}}, {4, {b, s, d}}};
}

/// Kernels of the scan in chunks, one after the other, as in the authors' code: sums of steps, products of c
/// and b within chunks, states of chunks, states from chunk to chunk, results. Backward makes the first four
/// again. Then come the gradients of states, two kernels, of x, of b and of c from states, of the products,
/// of b and c from these, two kernels, and of the steps, two kernels.
void set_kernels_of_chunks(Operator& op, double element, double chunk) {
  constexpr FactorIndex b = 0, s = 1, g = 2, r = 3, p = 4, n = 5;
  op.separate.forward = 5;
  op.separate.backward_input = 4 + 10;
  const std::vector<FactorIndex> states{b, s, g, r, p, n}, within{b, s, g};
  // States of chunks are written in float32, and read and written on the way from chunk to chunk. Products
  // within chunks are written in float32 and read.
  op.bytes_forward_extra = {{(2 * 4 + 2 * element) / chunk, states}, {2 * 4 * chunk, within}};
  // The same again, but all states in float32. Their gradients are written in float32 and passed on along
  // with them, both become elements, and are read twice and once. The products are read twice. Their
  // gradients are written and read three times.
  op.bytes_backward_extra = {{(3 * 4 + 4 * 4 + 5 * element) / chunk, states}, {(3 + 4) * 4 * chunk, within}};
  // States of all chunks, in forward before and after they are passed on, in backward with their gradients.
  op.workspace =
      Workspace{.rows = {1 / chunk, {b, s}}, .row_bytes = {4, {g, r, p, n}}, .forward = 2, .backward = 4};
  op.uses[0].forward_passes = 2;  // of x
  op.uses[0].backward_passes = 5;
  op.uses[2].forward_passes = op.uses[3].forward_passes = 2;  // of b and c
  op.uses[2].backward_passes = op.uses[3].backward_passes = 4;
  op.uses.back().backward_passes = 5;  // over the result's gradient
}

/// The scan of Mamba-2 (Dao and Gu, 2024, arXiv:2405.21060): for every head r of a group g, Δ_t =
/// softplus(step_t + step_bias), h_t = exp(−Δ_t · exp(a)) · h_{t−1} + Δ_t · b_t · x_tᵀ, y_t = hᵀ_t · c_t +
/// skip · x_t with states h[n, p]. Its work is that of section 6, in chunks of the sequence. Each chunk is a
/// product of c, b and x; what earlier chunks add comes from their states. Backward makes states again.
void build_state_space_scan(OperatorDraft& draft) {
  draft.require_rank(0, 5, 5, "x[b, s, g, r, p]");
  draft.require_rank(2, 4, 4, "b[b, s, g, n]");
  const auto& x = draft.shape(0);
  const FactorIndex b = draft.factor("b", FactorKind::Sample, x[0]);
  const FactorIndex s = draft.unsplit_factor("s", FactorKind::Attribute, x[1]);
  const FactorIndex g = draft.factor("g", FactorKind::Attribute, x[2]);
  const FactorIndex r = draft.factor("r", FactorKind::Attribute, x[3]);
  const FactorIndex p = draft.factor("p", FactorKind::Parameter, x[4]);
  const FactorIndex n = draft.factor("n", FactorKind::Reduction, draft.shape(2)[3]);
  draft.input(0, draft.axes({b, s, g, r, p})).saved = true;
  draft.input(1, draft.axes({b, s, g, r})).saved = true;
  for (const std::size_t i : {2, 3}) draft.input(i, draft.axes({b, s, g, n})).saved = true;
  draft.weight("a", draft.axes({g, r}));
  draft.weight("step_bias", draft.axes({g, r}));
  draft.weight("skip", draft.axes({g, r})).lacks = {{n, Lack::Once}};
  draft.output("", draft.axes({b, s, g, r, p}));

  const std::int64_t length = std::min(draft.integer("chunk"), x[1]);
  const auto chunk = static_cast<double>(length);
  const std::vector<FactorIndex> states{b, s, g, r, p, n}, results{b, s, g, r, p}, groups{b, s, g, n},
      heads{b, s, g, r};
  // Products with all positions of the chunk: c with b for each group, the masked result with x. b with x
  // makes states, c with states adds results.
  draft.op.products_forward = {{2 * chunk, groups}, {2 * chunk, results}, {4, states}};
  draft.op.flops_forward = draft.op.products_forward;
  // For each pair of positions a decay 5 and two products, for each position a step and its decay 15 and b
  // scaled, for each result four sums and products; states from chunk to chunk.
  draft.op.flops_forward.insert(draft.op.flops_forward.end(),
                                {{7 * chunk + 15, heads}, {4, results}, {2 / chunk, states}});
  // Products of c with b again and the gradients of both; of x, of pairs, and these once more for the steps;
  // states again, and the gradients of states, c, b and x.
  draft.op.flops_backward_input = {{6 * chunk, groups},      {6 * chunk, results}, {10, states},
                                   {20 * chunk + 30, heads}, {8, results},         {6 / chunk, states}};
  draft.op.matrix = MatrixShape{{b, g, r}, {s}, {p}, {}, 1, 1, length};
  set_kernels_of_chunks(draft.op, draft.element_bytes(), chunk);
}

}  // namespace

std::vector<OperatorKind> state_space_kinds() {
  return {
      {"selective_scan",
       "the scan of a selective state-space model, as in Mamba; delta is positive",
       "x[b, s, d], delta[b, s, d], b[b, s, n], c[b, s, n]",
       4,
       4,
       {},
       {{{"x", {64, 128, 512}}, {"delta", {64, 128, 512}}, {"b", {64, 128, 16}}, {"c", {64, 128, 16}}}, {}},
       build_selective_scan},
      {"state_space_scan",
       "the scan of Mamba-2: r heads of each group have states [n, p], which share b and c; the step is "
       "softplus(step + step_bias), a state's decay exp(−step · exp(a))",
       "x[b, s, g, r, p], step[b, s, g, r], b[b, s, g, n], c[b, s, g, n]",
       4,
       4,
       {AttributeSchema::integer("chunk", "positions that are computed as one matrix product", 256)},
       {{{"x", {64, 512, 1, 16, 64}},
         {"step", {64, 512, 1, 16}},
         {"b", {64, 512, 1, 128}},
         {"c", {64, 512, 1, 128}}},
        {}},
       build_state_space_scan}};
}

}  // namespace pipesim
