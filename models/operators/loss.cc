#include "models/operator_draft.h"
#include "models/operators/families.h"

namespace pipesim {
namespace {

void build_cross_entropy(OperatorDraft& draft) {
  draft.require_rank(0, 2, 8, "[b, s…, v]");
  draft.require_integers(1);
  std::vector<FactorIndex> rows = {draft.factor("b", FactorKind::Sample, draft.shape(0)[0])};
  for (std::size_t i = 1; i + 1 < draft.rank(0); ++i) {
    rows.push_back(draft.factor(numbered("s", i - 1), FactorKind::Attribute, draft.shape(0)[i], true));
  }
  const FactorIndex v = draft.factor("v", FactorKind::Parameter, draft.shape(0).back(), true);
  std::vector<FactorIndex> dims = rows;
  dims.push_back(v);
  draft.input(0, draft.axes(dims)).saved = true;
  TensorUse& labels = draft.index(1, draft.axes(rows));
  labels.lacks = {{v, Lack::Same}};
  labels.saved = true;
  // Shards along v finish the loss together and all hold it; adding their copies would multiply it.
  draft.output("", {}, DataType::Float32).lacks = {{v, Lack::Same}};
  draft.op.flops_forward = {{4, dims}};
  draft.op.flops_backward_input = {{3, dims}};
  draft.op.saved_extra_bytes = {{4, rows}};  // log of the row's sum
  using enum InnerStep::Reduce;
  draft.op.inner_steps = {{Pass::Forward, Max, {v}, {1, rows}, 4, 1.0 / 4},
                          {Pass::Forward, Sum, {v}, {2, rows}, 4, 3.5 / 4}};
}

}  // namespace

std::vector<OperatorKind> loss_kinds() {
  return {{"cross_entropy",
           "softmax cross entropy: the sum over rows by the count of rows in the global batch, a scalar",
           "x[b, s…, v], labels[b, s…]",
           2,
           2,
           {},
           {{{"x", {64, 128, 32000}}, {"labels", {64, 128}, DataType::Int64}}, {}},
           build_cross_entropy}};
}

}  // namespace pipesim
