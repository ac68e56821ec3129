#include "models/operator_draft.h"
#include "models/operators/families.h"

namespace pipesim {
namespace {

void build_embedding(OperatorDraft& draft) {
  draft.require_rank(0, 1, 7, "[b, s…]");
  draft.require_integers(0);
  std::vector<FactorIndex> rows = {draft.factor("b", FactorKind::Sample, draft.shape(0)[0])};
  for (std::size_t i = 1; i < draft.rank(0); ++i) {
    rows.push_back(draft.factor(numbered("s", i - 1), FactorKind::Attribute, draft.shape(0)[i], true));
  }
  const FactorIndex v = draft.factor("v", FactorKind::Reduction, draft.integer("rows"), true);
  const FactorIndex h = draft.factor("h", FactorKind::Parameter, draft.integer("width"));
  std::vector<FactorIndex> result = rows;
  result.push_back(h);
  draft.index(0, draft.axes(rows)).saved = true;
  draft.weight("w", draft.axes({v, h})).forward_passes = 0;  // only the rows read move, see below
  draft.output("", draft.axes(result));
  draft.op.bytes_forward_extra = {{draft.element_bytes(), result}};
  draft.op.flops_backward_weight = {{1, result}};
}

}  // namespace

std::vector<OperatorKind> embedding_kinds() {
  return {{"embedding",
           "rows of a table, chosen by index",
           "indices[b, s…]",
           1,
           1,
           {AttributeSchema::integer("rows", "rows of the table: the vocabulary"),
            AttributeSchema::integer("width", "length of a row")},
           {{{"indices", {64, 128}, DataType::Int64}}, {{"rows", 32000}, {"width", 512}}},
           build_embedding}};
}

}  // namespace pipesim
