#include <fmt/format.h>

#include "models/operator_draft.h"
#include "models/operators/families.h"

namespace pipesim {
namespace {

void check_top_k(const OperatorDraft& draft) {
  const std::int64_t experts = draft.shape(1)[2], top_k = draft.integer("top_k");
  if (top_k > experts)
    draft.fail(fmt::format("attribute \"top_k\" is {}, allowed: at most {} experts", top_k, experts));
}

void build_dispatch(OperatorDraft& draft) {
  draft.require_rank(0, 3, 3, "x[g, n, h]");
  draft.require_rank(1, 3, 3, "p[g, n, e]");
  check_top_k(draft);
  const std::int64_t tokens = draft.shape(0)[1], experts = draft.shape(1)[2];
  const FactorIndex g = draft.factor("g", FactorKind::Sample, draft.shape(0)[0]);
  const FactorIndex e = draft.factor("e", FactorKind::Parameter, experts);
  const FactorIndex h = draft.factor("h", FactorKind::Attribute, draft.shape(0)[2]);
  TensorUse& x = draft.input(0, {draft.axis(g), IndexExpr::whole(tokens), draft.axis(h)});
  x.forward_passes = x.backward_passes = 0;
  draft.index(1, {draft.axis(g), IndexExpr::whole(tokens), IndexExpr::whole(experts)});
  TensorUse& z = draft.output(
      "", {draft.axis(g), draft.axis(e), IndexExpr::whole(draft.integer("capacity")), draft.axis(h)});
  z.forward_passes = z.backward_passes = 0;
  // Only the chosen rows of x and z move, read and written once; a shard has the rows of its experts.
  const double routed = static_cast<double>(draft.integer("top_k") * tokens);
  const double rows_per_expert = routed / static_cast<double>(experts);
  draft.op.bytes_forward_extra = {{2 * rows_per_expert * draft.element_bytes(), {g, e, h}}};
  draft.op.bytes_backward_extra = draft.op.bytes_forward_extra;
  draft.op.saved_extra_bytes = {{8 * routed, {g}}};  // expert and slot of every routed token
}

void build_combine(OperatorDraft& draft) {
  draft.require_rank(0, 4, 4, "z[g, e, c, h]");
  draft.require_rank(1, 3, 3, "p[g, n, e]");
  check_top_k(draft);
  const auto& z = draft.shape(0);
  const std::int64_t tokens = draft.shape(1)[1];
  const FactorIndex g = draft.factor("g", FactorKind::Sample, z[0]);
  const FactorIndex e = draft.factor("e", FactorKind::Reduction, z[1]);
  const FactorIndex h = draft.factor("h", FactorKind::Attribute, z[3]);
  draft.input(0, {draft.axis(g), draft.axis(e), IndexExpr::whole(z[2]), draft.axis(h)}).saved = true;
  draft.input(1, {draft.axis(g), IndexExpr::whole(tokens), IndexExpr::whole(z[1])}).saved = true;
  draft.output("", {draft.axis(g), IndexExpr::whole(tokens), draft.axis(h)});
  // k·n rows a group, spread over the experts: a shard combines the rows of its own.
  const double rows_per_expert =
      static_cast<double>(draft.integer("top_k") * tokens) / static_cast<double>(z[1]);
  draft.op.flops_forward = {{2 * rows_per_expert, {g, e, h}}};
  draft.op.flops_backward_input = {{4 * rows_per_expert, {g, e, h}}};
}

void build_expert_linear(OperatorDraft& draft) {
  draft.require_rank(0, 4, 4, "[g, e, c, h]");
  const auto& z = draft.shape(0);
  const FactorIndex g = draft.factor("g", FactorKind::Sample, z[0]);
  const FactorIndex e = draft.factor("e", FactorKind::Parameter, z[1]);
  const FactorIndex c = draft.factor("c", FactorKind::Attribute, z[2]);
  const FactorIndex h = draft.factor("h", FactorKind::Reduction, z[3]);
  const FactorIndex f = draft.factor("f", FactorKind::Parameter, draft.integer("out"));
  draft.input(0, draft.axes({g, e, c, h})).saved = true;
  draft.weight("w", draft.axes({e, h, f}));
  draft.output("", draft.axes({g, e, c, f}));
  draft.op.flops_forward = {{2, {g, e, c, h, f}}};
  draft.op.flops_backward_input = draft.op.flops_backward_weight = draft.op.flops_forward;
  draft.op.matrix = MatrixShape{{e}, {g, c}, {f}, {h}};
  fuse_activation(draft, draft.word("activation"), {g, e, c, f}, {h});
}

}  // namespace

std::vector<OperatorKind> expert_kinds() {
  using Schema = AttributeSchema;
  const auto top_k = Schema::integer("top_k", "experts per token");
  return {{"moe_dispatch",
           "sends every token of a group to its experts, in token order until their capacity is full",
           "x[g, n, h], p[g, n, e]",
           2,
           2,
           {top_k, Schema::integer("capacity", "tokens per expert and group")},
           {{{"x", {64, 128, 512}}, {"p", {64, 128, 8}}}, {{"top_k", 2}, {"capacity", 40}}},
           build_dispatch},
          {"expert_linear",
           "y = z · w with a weight per expert",
           "z[g, e, c, h]",
           1,
           1,
           {Schema::integer("out", "output features"), activation_attribute()},
           {{{"z", {64, 8, 40, 512}}}, {{"out", 2048}}},
           build_expert_linear},
          {"moe_combine",
           "adds the experts' results for every token, weighted by p",
           "z[g, e, c, h], p[g, n, e]",
           2,
           2,
           {top_k},
           {{{"z", {64, 8, 40, 512}}, {"p", {64, 128, 8}}}, {{"top_k", 2}}},
           build_combine}};
}

}  // namespace pipesim
