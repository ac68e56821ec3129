#include <fmt/format.h>

#include "models/operator_draft.h"
#include "models/operators/families.h"
#include "models/precision.h"

namespace pipesim {
namespace {

std::vector<FactorIndex> joined(std::vector<FactorIndex> a, const std::vector<FactorIndex>& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

void build_linear(OperatorDraft& draft) {
  const auto contracted = static_cast<std::size_t>(draft.integer("contract"));
  const auto out = draft.list("out");
  draft.require_rank(0, contracted + 1, 8, fmt::format("[batch…, {} contracted]", contracted));
  if (out.empty()) draft.fail("attribute \"out\" is [], allowed: one output dimension or more");
  const bool vocabulary = draft.flag("uneven") || draft.flag("transpose_weight");

  const auto& shape = draft.shape(0);
  std::vector<FactorIndex> batch, inner, columns;
  for (std::size_t i = 0; i + contracted < shape.size(); ++i) {
    batch.push_back(i == 0 ? draft.factor("b", FactorKind::Sample, shape[0])
                           : draft.factor(numbered("s", i - 1), FactorKind::Attribute, shape[i], true));
  }
  for (std::size_t i = 0; i < contracted; ++i) {
    inner.push_back(draft.factor(numbered("i", i), FactorKind::Reduction, shape[batch.size() + i]));
  }
  for (std::size_t i = 0; i < out.size(); ++i) {
    columns.push_back(draft.factor(numbered("o", i), FactorKind::Parameter, out[i], vocabulary));
  }
  // Every copy of a router must choose the same experts, so its sums must not depend on a split. Groups of
  // positions that are routed apart may lie on different shards.
  if (draft.flag("router")) {
    for (std::size_t f = 1; f < draft.op.factors.size(); ++f) draft.op.factors[f].max_degree = 1;
    if (const std::int64_t groups = draft.integer("router_groups"); groups > 1) {
      if (batch.size() < 2 || draft.at(batch[1]).size % groups != 0)
        draft.fail(fmt::format("attribute \"router_groups\" is {}, allowed: divisors of dim 1 of the input",
                               groups));
      draft.at(batch[1]).max_degree = groups;
      draft.at(batch[1]).granule = draft.at(batch[1]).size / groups;
    }
  }

  // Models keep the fingerprints that they had before there were groups.
  if (draft.integer("router_groups") == 1) draft.op.attributes.erase("router_groups");
  if (draft.added_flag("narrow")) {
    for (const FactorIndex f : columns) draft.at(f).max_degree = 1;
  }

  const auto result = joined(batch, columns), all = joined(joined(batch, columns), inner);
  TensorUse& x = draft.input(0, draft.axes(joined(batch, inner)));
  x.saved = true;
  x.saved_for_weights = !draft.added_flag("keep_input");
  draft.weight("w",
               draft.axes(draft.flag("transpose_weight") ? joined(columns, inner) : joined(inner, columns)));
  draft.store_weight();
  draft.op.flops_forward = draft.op.flops_backward_input = draft.op.flops_backward_weight = {{2, all}};
  if (draft.flag("bias")) {
    TensorUse& bias = draft.weight("b", draft.axes(columns));
    for (const FactorIndex f : inner) bias.lacks.emplace_back(f, Lack::Once);
    draft.op.flops_forward.push_back({1, result});
    draft.op.flops_backward_weight.push_back({1, result});
    draft.op.separate.backward_weight = 2;  // the sum of rows reads the gradient once more
    draft.op.separate.bytes_backward_weight = {{draft.element_bytes(), result}};
  }
  draft.output("", draft.axes(result));
  draft.op.matrix = MatrixShape{{}, batch, columns, inner};
  cast_operands(draft, joined(batch, inner), joined(inner, columns), result);
  fuse_activation(draft, draft.word("activation"), result, inner);
}

void build_matmul(OperatorDraft& draft) {
  draft.require_rank(0, 2, 8, "[a…, m, k]");
  const auto& p = draft.shape(0);
  const auto& q = draft.shape(1);
  const bool transposed = draft.flag("transpose_q");
  draft.require_rank(1, p.size(), p.size(),
                     transposed ? "[a…, n, k] as p[a…, m, k]" : "[a…, k, n] as p[a…, m, k]");
  std::vector<FactorIndex> batch;
  for (std::size_t i = 0; i + 2 < p.size(); ++i) {
    batch.push_back(
        draft.factor(numbered("a", i), i == 0 ? FactorKind::Sample : FactorKind::Attribute, p[i]));
  }
  const std::size_t last = p.size() - 1;
  const FactorIndex m =
      draft.factor("m", batch.empty() ? FactorKind::Sample : FactorKind::Attribute, p[last - 1], true);
  const FactorIndex n = draft.factor("n", FactorKind::Attribute, q[transposed ? last - 1 : last], true);
  const FactorIndex k = draft.factor("k", FactorKind::Reduction, p[last]);
  draft.input(0, draft.axes(joined(batch, {m, k}))).saved = true;
  draft.input(1, draft.axes(joined(batch, transposed ? std::vector{n, k} : std::vector{k, n}))).saved = true;
  draft.output("", draft.axes(joined(batch, {m, n})));
  const auto all = joined(batch, {m, n, k});
  draft.op.flops_forward = {{2, all}};
  draft.op.flops_backward_input = {{4, all}};
  draft.op.matrix = MatrixShape{batch, {m}, {n}, {k}};
}

}  // namespace

void cast_operands(OperatorDraft& draft, const std::vector<FactorIndex>& input,
                   const std::vector<FactorIndex>& weight, const std::vector<FactorIndex>& result) {
  const Precision* precision = find_precision(draft.word("products"));
  const bool casts_input = draft.flag("cast_input"), keeps_uncast = draft.flag("keep_uncast");
  // Models keep the fingerprints that they had before there were other types.
  if (!precision) draft.op.attributes.erase("products");
  if (!precision || casts_input) draft.op.attributes.erase("cast_input");
  if (!precision || !keeps_uncast) draft.op.attributes.erase("keep_uncast");
  if (!precision) {
    if (!casts_input) draft.fail("attribute \"cast_input\" is 0, allowed where products is not own");
    if (keeps_uncast) draft.fail("attribute \"keep_uncast\" is 1, allowed where products is not own");
    return;
  }
  const double moved = precision->reads * draft.element_bytes() + precision->written;
  draft.op.casts = Casts{precision->type, {}, {{moved, weight}}, {{moved, result}}};
  if (casts_input) {
    draft.op.casts->input = {{moved, input}};
    draft.op.separate.forward += precision->kernels;
  }
  draft.op.separate.backward_input += precision->kernels;
  // Transformer Engine keeps what the forward product read (transformer_engine/pytorch/module/linear.py,
  // layernorm_linear.py and grouped_linear.py); torchao what it was cast from (matmul_with_hp_or_float8_args
  // in torchao/float8/float8_linear.py).
  if (!keeps_uncast) draft.op.uses.front().saved_as = precision->type;
}

std::vector<AttributeSchema> with_casts(std::vector<AttributeSchema> attributes) {
  attributes.push_back(
      AttributeSchema::word("products", "type that products multiply in", product_words(), "own"));
  attributes.push_back(AttributeSchema::flag(
      "cast_input", true,
      "where products is not own: brings its input into that type; not where another operator has done so"));
  attributes.push_back(AttributeSchema::flag(
      "keep_uncast", false,
      "where products is not own: keeps its input for backward in its own type, as torchao does, not in the "
      "narrow one"));
  return attributes;
}

AttributeSchema stored_attribute() {
  return AttributeSchema::word(
      "stored", "how a frozen weight lies in memory; a kernel brings it into its type before each product",
      {"own", "8bit", "4bit"}, "own");
}

std::vector<OperatorKind> linear_kinds() {
  using Schema = AttributeSchema;
  return {
      {"linear",
       "y = x · w + b over the last dims of x",
       "x[b, s…, i…]",
       1,
       1,
       with_casts(
           {Schema::integers("out", "output dims, e.g. [4096] or [heads, head_dim]"),
            Schema::integer("contract", "number of trailing dims of x that are contracted", 1),
            Schema::flag("bias", true, "adds a bias over the output dims"), activation_attribute(),
            Schema::flag("transpose_weight", false, "weight dims listed as [out…, in…]: a tied projection"),
            Schema::flag("router", false, "only the first dim may be split, so that all copies route alike"),
            Schema::integer("router_groups", "with router: parts of dim 1 that may be split from one another",
                            1),
            Schema::flag("uneven", false,
                         "output dims may be cut unevenly (a vocabulary); tied projections may"),
            Schema::flag("narrow", false,
                         "output dims are not split: they are the narrow ones between an adapter's "
                         "products"),
            Schema::flag("keep_input", false,
                         "the input is kept for backward beside a frozen weight, too, whose gradient alone "
                         "would need it"),
            stored_attribute()}),
       {{{"x", {64, 128, 512}}}, {{"out", 2048}}},
       build_linear},
      {"matmul",
       "y = p · q for every index of the leading dims",
       "p[a…, m, k], q[a…, k, n]",
       2,
       2,
       {Schema::flag("transpose_q", false, "q is listed as [a…, n, k]")},
       {{{"p", {64, 128, 512}}, {"q", {64, 512, 256}}}, {}},
       build_matmul}};
}

}  // namespace pipesim
