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
       build_selective_scan}};
}

}  // namespace pipesim
