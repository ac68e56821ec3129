#include "models/operator_draft.h"
#include "models/operators/families.h"

namespace pipesim {
namespace {

void build_lstm_cell(OperatorDraft& draft) {
  draft.require_rank(0, 2, 2, "[n, i]");
  const std::int64_t in = draft.shape(0)[1], hidden = draft.integer("hidden");
  const FactorIndex n = draft.factor("n", FactorKind::Sample, draft.shape(0)[0]);
  const FactorIndex h = draft.factor("h", FactorKind::Parameter, hidden);
  const auto whole = [](std::int64_t extent) { return IndexExpr::whole(extent); };
  draft.input(0, {draft.axis(n), whole(in)}).saved = true;
  draft.input(1, {draft.axis(n), whole(hidden)}).saved = true;
  draft.input(2, draft.axes({n, h})).saved = true;
  draft.weight("wx", {whole(in), whole(4), draft.axis(h)});
  draft.weight("wh", {whole(hidden), whole(4), draft.axis(h)});
  draft.weight("b", {whole(4), draft.axis(h)});
  draft.output("h", draft.axes({n, h}));
  draft.output("c", draft.axes({n, h})).saved = true;
  const double products = 8 * static_cast<double>(in + hidden);
  draft.op.flops_forward = {{products + 30, {n, h}}};
  draft.op.flops_backward_input = draft.op.flops_backward_weight = {{products, {n, h}}};
  draft.op.saved_extra_bytes = {{4 * draft.element_bytes(), {n, h}}};  // the four gates
  draft.op.matrix = MatrixShape{{}, {n}, {h}, {}, 1, 4, in + hidden};
}

/// Additive attention of Bahdanau et al.: scores v · tanh(pq + pk), softmax over the sequence, weighted sum
/// of val.
void build_bahdanau(OperatorDraft& draft) {
  draft.require_rank(1, 3, 3, "pk[n, s, a]");
  draft.require_rank(2, 3, 3, "val[n, s, d]");
  const auto& keys = draft.shape(1);
  const FactorIndex n = draft.factor("n", FactorKind::Sample, keys[0]);
  const FactorIndex s = draft.factor("s", FactorKind::Reduction, keys[1], true);
  const FactorIndex a = draft.factor("a", FactorKind::Reduction, keys[2]);
  const FactorIndex d = draft.factor("d", FactorKind::Parameter, draft.shape(2)[2]);
  draft.input(0, draft.axes({n, a})).saved = true;
  draft.input(1, draft.axes({n, s, a})).saved = true;
  TensorUse& values = draft.input(2, draft.axes({n, s, d}));
  values.saved = true;
  values.lacks = {{a, Lack::Same}};  // read after the scores are complete
  draft.weight("v", {draft.axis(a)});
  draft.output("", draft.axes({n, d})).lacks = {{a, Lack::Same}};
  draft.op.flops_forward = {{5, {n, s, a}}, {2, {n, s, d}}};
  draft.op.flops_backward_input = {{9, {n, s, a}}, {4, {n, s, d}}};
  draft.op.saved_extra_bytes = {{draft.element_bytes(), {n, s}}};  // the weights of the sum
  using enum InnerStep::Reduce;
  const double width = static_cast<double>(keys[2]), depth = static_cast<double>(draft.shape(2)[2]);
  const double scored = 5 * width / (5 * width + 2 * depth);
  draft.op.inner_steps = {{Pass::Forward, Sum, {a}, {1, {n, s}}, 4, 0.98 * scored},
                          {Pass::Forward, Max, {s}, {1, {n}}, 4, 0.99 * scored},
                          {Pass::Forward, Sum, {s}, {1, {n}}, 4, scored},
                          {Pass::BackwardInput, Sum, {s}, {1, {n}}, 4, 2 * depth / (9 * width + 4 * depth)}};
}

}  // namespace

std::vector<OperatorKind> recurrent_kinds() {
  return {{"lstm_cell",
           "one step of an LSTM; outputs h and c",
           "x[n, i], h[n, hidden], c[n, hidden]",
           3,
           3,
           {AttributeSchema::integer("hidden", "length of h and c")},
           {{{"x", {64, 512}}, {"h", {64, 1024}}, {"c", {64, 1024}}}, {{"hidden", 1024}}},
           build_lstm_cell},
          {"bahdanau_attention",
           "additive attention of one query over a sequence",
           "pq[n, a], pk[n, s, a], val[n, s, d]",
           3,
           3,
           {},
           {{{"pq", {64, 512}}, {"pk", {64, 40, 512}}, {"val", {64, 40, 1024}}}, {}},
           build_bahdanau,
           true}};
}

}  // namespace pipesim
