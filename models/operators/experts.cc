#include <fmt/format.h>

#include <optional>
#include <vector>

#include "models/operator_draft.h"
#include "models/operators/families.h"

namespace pipesim {
namespace {

constexpr double kBytesOfRoute = 8;  // expert and slot of a routed token

void check_top_k(const OperatorDraft& draft) {
  const std::int64_t experts = draft.shape(1)[2], top_k = draft.integer("top_k");
  if (top_k > experts)
    draft.fail(fmt::format("attribute \"top_k\" is {}, allowed: at most {} experts", top_k, experts));
}

// What dispatch and combine have alike: how tokens travel between them and the experts.
struct TokenTravel {
  TokenTravel(OperatorDraft& draft, std::int64_t experts) {
    if (draft.added_word("tokens", "own") == "float8") sent_as = DataType::Float8;
    const std::int64_t nodes = draft.added_integer("nodes", 0), chosen = draft.integer("top_k");
    route = NodeRoute{experts, chosen, nodes};
  }
  void set(TensorUse& use) const { use.sent_as = sent_as, use.route = route; }
  static std::vector<AttributeSchema> with(std::vector<AttributeSchema> attributes) {
    attributes.push_back(AttributeSchema::word(
        "tokens",
        "type in which tokens, and gradients of experts' results, travel; results, and gradients of tokens, "
        "travel in the tensor's own",
        {"own", "float8"}, "own"));
    attributes.push_back(AttributeSchema::integer(
        "nodes",
        "a token's experts are on so many nodes at most, each of which it reaches once; 0: it is sent to "
        "each expert by itself",
        0, 0));
    return attributes;
  }

  std::optional<DataType> sent_as;
  NodeRoute route;
};

// The tokens of a sample in groups, where there are several: positions are m groups of n tokens.
struct TokenGroups {
  TokenGroups(OperatorDraft& draft, std::int64_t positions, std::int64_t groups, bool several)
      : positions_(positions), tokens_(positions / groups), several_(several) {
    if (!several_) return;
    m = draft.factor("m", FactorKind::Attribute, groups);
    n = draft.unsplit_factor("n", FactorKind::Attribute, tokens_);
  }
  [[nodiscard]] std::int64_t tokens() const { return tokens_; }  // of a group
  [[nodiscard]] IndexExpr positions() const {
    return several_ ? IndexExpr::merged({m, n}, positions_) : IndexExpr::whole(positions_);
  }
  // The factors with m behind the first.
  [[nodiscard]] std::vector<FactorIndex> with(std::vector<FactorIndex> factors) const {
    if (several_) factors.insert(factors.begin() + 1, m);
    return factors;
  }
  // The same of dimensions.
  [[nodiscard]] std::vector<IndexExpr> with(const OperatorDraft& draft, std::vector<IndexExpr> dims) const {
    if (several_) dims.insert(dims.begin() + 1, draft.axis(m));
    return dims;
  }

 private:
  std::int64_t positions_, tokens_;
  bool several_;
  FactorIndex m = -1, n = -1;
};

// Received rows come device by device. A kernel brings them into the order of the experts `e`, another one
// back.
void sort_rows(OperatorDraft& draft, double rows_per_expert, const std::vector<FactorIndex>& rows,
               FactorIndex e) {
  SeparateKernels& separate = draft.op.separate;
  separate.sorted = e;
  separate.bytes_forward =
      separate.bytes_backward_input = {{2 * rows_per_expert * draft.element_bytes(), rows}};
}

void build_dispatch(OperatorDraft& draft) {
  draft.require_rank(0, 3, 3, "x[g, n, h]");
  draft.require_rank(1, 3, 3, "p[g, n, e]");
  check_top_k(draft);
  const std::int64_t positions = draft.shape(0)[1], experts = draft.shape(1)[2];
  if (positions % draft.integer("groups") != 0)
    draft.fail(fmt::format("attribute \"groups\" is {}, allowed: divisors of the {} tokens",
                           draft.integer("groups"), positions));
  const FactorIndex g = draft.factor("g", FactorKind::Sample, draft.shape(0)[0]);
  const TokenGroups groups(draft, positions, draft.integer("groups"), draft.integer("groups") > 1);
  const FactorIndex e = draft.factor("e", FactorKind::Parameter, experts);
  const bool weights = draft.added_flag("weights");
  const FactorIndex h = draft.factor("h", FactorKind::Attribute, draft.shape(0)[2]);
  if (weights) draft.at(h).max_degree = 1;  // each part of the width would add the weights' gradient
  TensorUse& x = draft.input(0, {draft.axis(g), groups.positions(), draft.axis(h)});
  x.forward_passes = x.backward_passes = 0;
  const std::vector<IndexExpr> p{draft.axis(g), groups.positions(), IndexExpr::whole(experts)};
  weights ? draft.input(1, p) : draft.index(1, p);
  const auto slots = [&](const IndexExpr& width) {
    return groups.with(draft,
                       {draft.axis(g), draft.axis(e), IndexExpr::whole(draft.integer("capacity")), width});
  };
  TensorUse& z = draft.output(weights ? "tokens" : "", slots(draft.axis(h)));
  z.forward_passes = z.backward_passes = 0;
  TokenTravel(draft, experts).set(z);
  if (weights) draft.output("weights", slots(IndexExpr::whole(1)));
  // Models keep the fingerprints that they had before there were groups.
  if (draft.integer("groups") == 1) draft.op.attributes.erase("groups");
  // Only the chosen rows of x and z move, read and written once; a shard has the rows of its experts.
  const double routed = static_cast<double>(draft.integer("top_k") * groups.tokens());
  const double rows_per_expert = routed / static_cast<double>(experts);
  draft.op.bytes_forward_extra = {{2 * rows_per_expert * draft.element_bytes(), groups.with({g, e, h})}};
  draft.op.bytes_backward_extra = draft.op.bytes_forward_extra;
  draft.op.saved_extra_bytes = {{kBytesOfRoute * routed, groups.with({g})}};
  // Megatron-LM's moe_utils.py and token_dispatcher.py, with moe_permute_fusion: the choice of experts as
  // shares and as a map (8 kernels), tokens by expert and rank, of which the host reads three lists (10), the
  // order of rows (4), then rows by expert before and after they travel (2).
  draft.op.separate.forward = 24;
  draft.op.separate.backward_input = 7;  // rows twice, and what leads to the router's scores
  sort_rows(draft, rows_per_expert, groups.with({g, e, h}), e);
  draft.op.separate.reads_counts = true;
}

void build_combine(OperatorDraft& draft) {
  draft.require_rank(0, 4, 5, "z[g, e, c, h] or z[g, m, e, c, h]");
  draft.require_rank(1, 3, 3, "p[g, n, e]");
  check_top_k(draft);
  const auto& z = draft.shape(0);
  const std::size_t dim = z.size() - 3;  // of the experts
  const std::int64_t positions = draft.shape(1)[1], count = dim == 2 ? z[1] : 1;
  if (positions % count != 0)
    draft.fail(fmt::format("input 0 has {} groups, allowed: divisors of the {} tokens", count, positions));
  const FactorIndex g = draft.factor("g", FactorKind::Sample, z[0]);
  const TokenGroups groups(draft, positions, count, dim == 2);
  const FactorIndex e = draft.factor("e", FactorKind::Reduction, z[dim]);
  const FactorIndex h = draft.factor("h", FactorKind::Attribute, z[dim + 2]);
  const IndexExpr capacity = IndexExpr::whole(z[dim + 1]);
  const bool weighs = !draft.added_flag("unweighted");
  TensorUse& results =
      draft.input(0, groups.with(draft, {draft.axis(g), draft.axis(e), capacity, draft.axis(h)}));
  results.saved = weighs;
  TokenTravel(draft, z[dim]).set(results);
  const std::vector<IndexExpr> p{draft.axis(g), groups.positions(), IndexExpr::whole(z[dim])};
  (weighs ? draft.input(1, p) : draft.index(1, p)).saved = weighs;
  draft.output("", {draft.axis(g), groups.positions(), draft.axis(h)});
  // k·n rows a group, spread over the experts: a shard combines the rows of its own.
  const auto routed = static_cast<double>(draft.integer("top_k") * groups.tokens());
  const double rows_per_expert = routed / static_cast<double>(z[dim]);
  draft.op.flops_forward = {{(weighs ? 2 : 1) * rows_per_expert, groups.with({g, e, h})}};
  if (weighs) {
    draft.op.flops_backward_input = {{4 * rows_per_expert, groups.with({g, e, h})}};
  } else {
    draft.op.saved_extra_bytes = {{kBytesOfRoute * routed, groups.with({g})}};
  }
  draft.op.separate.forward = draft.op.separate.backward_input = 2;  // rows before and after they travel
  sort_rows(draft, rows_per_expert, groups.with({g, e, h}), e);
}

void build_expert_linear(OperatorDraft& draft) {
  draft.require_rank(0, 4, 5, "[g, e, c, h] or [g, m, e, c, h]");
  const auto& z = draft.shape(0);
  const std::size_t dim = z.size() - 3;  // of the experts
  std::vector<FactorIndex> rows{draft.factor("g", FactorKind::Sample, z[0])};
  if (dim == 2) rows.push_back(draft.factor("m", FactorKind::Attribute, z[1]));
  const FactorIndex e = draft.factor("e", FactorKind::Parameter, z[dim]);
  const FactorIndex c = draft.factor("c", FactorKind::Attribute, z[dim + 1]);
  const FactorIndex h = draft.factor("h", FactorKind::Reduction, z[dim + 2]);
  const FactorIndex f = draft.factor("f", FactorKind::Parameter, draft.integer("out"));
  const auto with_rows = [&](std::initializer_list<FactorIndex> factors) {
    std::vector<FactorIndex> list = rows;
    list.insert(list.end(), factors);
    return list;
  };
  TensorUse& x = draft.input(0, draft.axes(with_rows({e, c, h})));
  x.saved = x.saved_for_weights = true;
  draft.weight("w", draft.axes({e, h, f}));
  draft.store_weight();
  const std::vector<FactorIndex> result = with_rows({e, c, f});
  draft.op.flops_forward = {{2, with_rows({e, c, h, f})}};
  draft.op.flops_backward_input = draft.op.flops_backward_weight = draft.op.flops_forward;
  if (draft.added_flag("bias")) {
    draft.weight("b", draft.axes({e, f})).lacks.emplace_back(h, Lack::Once);
    draft.op.flops_forward.push_back({1, result});
    draft.op.flops_backward_weight.push_back({1, result});
    draft.op.separate.forward = draft.op.separate.backward_weight = 2;  // an addition, a sum of rows
    draft.op.separate.bytes_forward = {{2 * draft.element_bytes(), result}};
    draft.op.separate.bytes_backward_weight = {{draft.element_bytes(), result}};
  }
  draft.output("", draft.axes(result));
  draft.op.matrix = MatrixShape{{e}, with_rows({c}), {f}, {h}};
  draft.op.separate.experts = e;
  cast_operands(draft, with_rows({e, c, h}), {e, h, f}, with_rows({e, c, f}));
  fuse_activation(draft, draft.word("activation"), with_rows({e, c, f}), {h});
}

}  // namespace

std::vector<OperatorKind> expert_kinds() {
  using Schema = AttributeSchema;
  const auto top_k = Schema::integer("top_k", "experts per token");
  return {
      {"moe_dispatch",
       "sends every token of a group to its experts, in token order until their capacity is full; z[g, e, "
       "c, h], or z[g, m, e, c, h] with several groups",
       "x[g, n, h], p[g, n, e]",
       2,
       2,
       TokenTravel::with(
           {top_k, Schema::integer("capacity", "tokens per expert and group"),
            Schema::integer("groups", "groups of neighbouring tokens in a sample", 1),
            Schema::flag("weights", false,
                         "has a second result, w[g, e, c, 1] or w[g, m, e, c, 1]: p of each slot's token")}),
       {{{"x", {64, 128, 512}}, {"p", {64, 128, 8}}}, {{"top_k", 2}, {"capacity", 40}}},
       build_dispatch},
      {"expert_linear",
       "y = z · w with a weight per expert, + b if there are biases",
       "z[g, e, c, h] or z[g, m, e, c, h]",
       1,
       1,
       with_casts({Schema::integer("out", "output features"),
                   Schema::flag("bias", false, "adds a bias of each expert, as in gpt-oss"),
                   activation_attribute(), stored_attribute()}),
       {{{"z", {64, 8, 40, 512}}}, {{"out", 2048}}},
       build_expert_linear},
      {"moe_combine",
       "adds the experts' results for every token, weighted by p unless they have been",
       "z[g, e, c, h] or z[g, m, e, c, h], p[g, n, e]",
       2,
       2,
       TokenTravel::with(
           {top_k, Schema::flag("unweighted", false,
                                "adds them as they are; p says only where they are, and has no gradient")}),
       {{{"z", {64, 8, 40, 512}}, {"p", {64, 128, 8}}}, {{"top_k", 2}}},
       build_combine}};
}

}  // namespace pipesim
