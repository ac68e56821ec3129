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

/// Rows that a shard does not own are 0 in its addend, as of embedding.
void build_embedding_bag(OperatorDraft& draft) {
  draft.require_rank(0, 2, 2, "[b, l]");
  draft.require_integers(0);
  const FactorIndex b = draft.factor("b", FactorKind::Sample, draft.shape(0)[0]);
  const FactorIndex l = draft.factor("l", FactorKind::Reduction, draft.shape(0)[1], true);
  const FactorIndex v = draft.factor("v", FactorKind::Reduction, draft.integer("rows"), true);
  const FactorIndex h = draft.factor("h", FactorKind::Parameter, draft.integer("width"));
  draft.index(0, draft.axes({b, l})).saved = true;
  draft.weight("w", draft.axes({v, h})).forward_passes = 0;  // only the rows read move, see below
  draft.output("", draft.axes({b, h}));
  draft.op.bytes_forward_extra = {{draft.element_bytes(), {b, l, h}}};
  draft.op.flops_forward = draft.op.flops_backward_weight = {{1, {b, l, h}}};
}

}  // namespace

std::vector<OperatorKind> embedding_kinds() {
  return {{"embedding_bag",
           "sum or mean of rows of a table, chosen by the indices of a sample",
           "indices[b, l]",
           1,
           1,
           {AttributeSchema::integer("rows", "rows of the table"),
            AttributeSchema::integer("width", "length of a row"),
            AttributeSchema::word("mode", "what to make of a sample's rows", {"sum", "mean"}, "sum")},
           {{{"indices", {64, 20}, DataType::Int64}}, {{"rows", 100000}, {"width", 64}}},
           build_embedding_bag},
          {"embedding",
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
