#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "models/operator_draft.h"
#include "models/operators/families.h"

namespace pipesim {
namespace {

void require_as_many_keys(const OperatorDraft& draft) {
  if (draft.shape(0)[1] == draft.shape(1)[1]) return;
  draft.fail(fmt::format("inputs 0 and 1 have shapes {} and {}, allowed: as many keys as queries",
                         to_text(draft.shape(0)), to_text(draft.shape(1))));
}

/// Chooses keys for each query (DeepSeek-AI, 2025, arXiv:2512.02556, section 2.1, the lightning indexer): the
/// score of key t is Σ_i w_i · relu(q_i · k_t). Scores are not written. A query sees the keys up to its own
/// position. The choice has no gradient, so nothing reaches what made q, k and w.
void build_select_keys(OperatorDraft& draft) {
  const bool by_head = draft.flag("by_head");
  if (draft.inputs() != (by_head ? 2U : 3U))
    draft.fail(fmt::format("has {} inputs, allowed: {}", draft.inputs(),
                           by_head ? "q and k with \"by_head\"" : "q, k and w without \"by_head\""));
  draft.require_rank(0, 4, 4, "q[b, s, i, d]");
  draft.require_rank(1, 3, 3, "k[b, t, d]");
  require_as_many_keys(draft);
  const std::int64_t count = draft.integer("count"), block = draft.integer("block");
  if (count % block != 0)
    draft.fail(fmt::format(
        "\"count\" is {} and \"block\" {}, allowed: a count that is a number of whole blocks", count, block));
  const auto& q = draft.shape(0);
  const FactorIndex b = draft.factor("b", FactorKind::Sample, q[0]);
  const FactorIndex s = draft.factor("s", FactorKind::Attribute, q[1], true);
  const FactorIndex i = draft.factor("i", FactorKind::Attribute, q[2]);
  const FactorIndex t = draft.unsplit_factor("t", FactorKind::Reduction, q[1]);
  if (!by_head) draft.at(i).max_degree = 1;  // scores of some heads alone would choose other keys
  const IndexExpr depth = IndexExpr::whole(q[3]), chosen = IndexExpr::whole(count);
  draft.input(0, {draft.axis(b), draft.axis(s), draft.axis(i), depth});
  draft.input(1, {draft.axis(b), draft.axis(t), depth});
  if (!by_head) draft.input(2, draft.axes({b, s, i}));
  std::vector<IndexExpr> result = draft.axes({b, s});
  if (by_head) result.push_back(draft.axis(i));
  result.push_back(chosen);
  draft.output("", std::move(result), DataType::Int32);

  // For each product relu, weight and sum, or the largest of a block. The choice by radix runs over scores of
  // 32 bits four times.
  const std::vector<FactorIndex> products{b, s, i, t};
  const auto d = static_cast<double>(q[3]);
  draft.op.products_forward = {{2 * d, products}};
  draft.op.flops_forward = {{2 * d + (by_head ? 1 : 3), products}};
  draft.op.flops_forward.push_back({4, by_head ? products : std::vector<FactorIndex>{b, s, t}});
  draft.op.matrix = MatrixShape{{b}, {s, i}, {t}, {}, 1, 1, q[3]};
  draft.op.causal = {s, t};
}

/// How many of the keys up to its own position a query has, at most `count`, on average.
double average_keys(std::int64_t positions, std::int64_t count) {
  const auto n = static_cast<double>(std::min(count, positions)), all = static_cast<double>(positions);
  return (n * (n + 1) / 2 + (all - n) * n) / all;
}

/// Attention over the keys that were selected for each query, for all of its heads or for each group. They
/// are scattered, so a shard needs all keys. Kernels gather them once for the heads of a group, which are the
/// rows of their products. Gradients of keys and values are added up in float32, element by element.
void build_selected_attention(OperatorDraft& draft) {
  draft.require_rank(0, 5, 5, "q[b, s, g, r, d]");
  draft.require_rank(1, 4, 4, "k[b, t, g, d]");
  draft.require_rank(2, 4, 4, "v[b, t, g, e]");
  draft.require_rank(3, 3, 4, "selected[b, s, n] or selected[b, s, g, n]");
  draft.require_integers(3);
  require_as_many_keys(draft);
  const auto &q = draft.shape(0), &v = draft.shape(2);
  const FactorIndex b = draft.factor("b", FactorKind::Sample, q[0]);
  const FactorIndex s = draft.factor("s", FactorKind::Attribute, q[1], true);
  const FactorIndex g = draft.factor("g", FactorKind::Attribute, q[2]);
  const FactorIndex r = draft.factor("r", FactorKind::Attribute, q[3]);
  const FactorIndex t = draft.unsplit_factor("t", FactorKind::Reduction, q[1]);
  const FactorIndex e = draft.factor("e", FactorKind::Parameter, v[3]);
  const IndexExpr depth = IndexExpr::whole(q[4]);
  draft.input(0, {draft.axis(b), draft.axis(s), draft.axis(g), draft.axis(r), depth}).saved = true;
  draft.input(1, {draft.axis(b), draft.axis(t), draft.axis(g), depth}).saved = true;
  draft.input(2, draft.axes({b, t, g, e})).saved = true;
  std::vector<IndexExpr> selected = draft.axes({b, s});
  if (draft.rank(3) == 4) selected.push_back(draft.axis(g));
  selected.push_back(IndexExpr::whole(draft.shape(3).back()));
  draft.index(3, std::move(selected)).saved = true;
  draft.output("", draft.axes({b, s, g, r, e})).saved = true;

  const double keys = average_keys(q[1], draft.shape(3).back()), d = static_cast<double>(q[4]);
  const std::vector<FactorIndex> rows{b, s, g, r}, results{b, s, g, r, e};
  draft.op.products_forward = {{2 * d * keys, rows}, {2 * keys, results}};
  draft.op.flops_forward = {{(2 * d + 5) * keys, rows}, {2 * keys, results}};
  draft.op.flops_backward_input = {{6 * d * keys, rows}, {4 * keys, results}};  // computes the scores again
  draft.op.saved_extra_bytes = {{4, rows}};                                     // log of the row's sum
  // Gradients of keys and values in float32: filled with 0, and read to be written in their type.
  draft.op.bytes_backward_extra = {{2 * 4 * d, {b, t, g}}, {2 * 4, {b, t, g, e}}};
  draft.op.matrix = MatrixShape{{b, s, g}, {r}, {}, {}, 1, std::llround(keys), q[4], true};
  draft.op.separate.backward_input = 6;  // sums of rows first, two filled, two turned into their type
}

}  // namespace

std::vector<OperatorKind> sparse_attention_kinds() {
  using Schema = AttributeSchema;
  return {
      {"select_keys",
       "positions of a query's best keys up to its own, without gradient; a score is the sum of w · relu(q · "
       "k) "
       "over heads i",
       "q[b, s, i, d], k[b, t, d], w[b, s, i] unless by_head",
       2,
       3,
       {Schema::integer(
            "count",
            "keys to select for a query: they come in ascending order, with −1 where there are no "
            "more; equal scores go to the lower position"),
        Schema::integer("block",
                        "keys are selected in blocks of so many neighbours, by the largest score in a block, "
                        "and always the query's own block; 1: each by itself",
                        1),
        Schema::flag("by_head", false,
                     "each head selects keys for itself, by q · k without w: the result is [b, s, i, n]")},
       {{{"q", {64, 128, 8, 64}}, {"k", {64, 128, 64}}, {"w", {64, 128, 8}}}, {{"count", 32}}},
       build_select_keys},
      {"selected_attention",
       "causal attention whose queries see selected keys only; −1 stands for none",
       "q[b, s, g, r, d], k[b, t, g, d], v[b, t, g, e], selected[b, s, n] or selected[b, s, g, n]",
       4,
       4,
       {},
       {{{"q", {64, 128, 8, 2, 64}},
         {"k", {64, 128, 8, 64}},
         {"v", {64, 128, 8, 64}},
         {"selected", {64, 128, 32}, DataType::Int32}},
        {}},
       build_selected_attention,
       true}};
}

}  // namespace pipesim
