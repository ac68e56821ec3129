#include <fmt/format.h>

#include <string>

#include "models/operator_draft.h"
#include "models/operators/families.h"

namespace pipesim {
namespace {

/// The order of positions. Models keep the fingerprints that they had before there was one.
void read_zigzag(OperatorDraft& draft, std::int64_t length) {
  const std::int64_t parts = draft.integer("zigzag");
  if (parts == 1) draft.op.attributes.erase("zigzag");
  if (parts > 1 && length % (2 * parts) != 0)
    draft.fail(
        fmt::format("\"zigzag\" is {}, allowed: half of a divisor of the {} positions", parts, length));
  draft.op.zigzag = parts;
}

/// The causal mask of queries and keys, and what narrows it.
void read_mask(OperatorDraft& draft, FactorIndex queries, FactorIndex keys) {
  const bool causal = draft.flag("causal");
  for (const char* name : {"document_length", "window"}) {
    if (draft.added_integer(name, 0) > 0 && !causal)
      draft.fail(fmt::format("attribute \"{}\" is given, allowed: with \"causal\"", name));
  }
  if (draft.op.zigzag > 1 && !causal) draft.fail("attribute \"zigzag\" is given, allowed: with \"causal\"");
  if (!causal) return;
  if (draft.at(queries).size != draft.at(keys).size) {
    draft.fail(fmt::format(
        "inputs 0 and 2 have shapes {} and {}, allowed: a causal mask needs as many keys as queries",
        to_text(draft.shape(0)), to_text(draft.shape(2))));
  }
  draft.op.causal = {queries, keys};
}

/// A score of each head that takes part in the softmax and has no value. Where keys are split, one shard adds
/// it.
void add_sinks(OperatorDraft& draft, const std::vector<FactorIndex>& rows, FactorIndex keys) {
  draft.weight("sink", draft.axes({rows[2], rows[3]})).lacks.emplace_back(keys, Lack::Once);
  draft.op.flops_forward.push_back({3, rows});  // compared, its exponential, added
  draft.op.flops_backward_input.push_back({3, rows});
}

/// Input 3 of biased attention, [g, r, s, t] or [b, g, r, s, t]: any of its dims may be 1.
std::vector<IndexExpr> bias_dims(const OperatorDraft& draft, const std::vector<FactorIndex>& scores) {
  const auto& shape = draft.shape(3);
  std::vector<IndexExpr> dims;
  const std::size_t missing = scores.size() - shape.size();
  for (std::size_t i = 0; i < shape.size(); ++i)
    dims.push_back(shape[i] == 1 ? IndexExpr::whole(1) : draft.axis(scores[missing + i]));
  return dims;
}

/// What is added to scores: biases that are learned and chosen by distance, of so many `buckets` or none;
/// slopes that are not learned; an input.
struct AddedToScores {
  std::int64_t buckets = 0;
  bool alibi = false, input = false;
};

void build_scores(OperatorDraft& draft, const AddedToScores& what) {
  draft.require_rank(0, 5, 5, "q[b, s, g, r, d]");
  draft.require_rank(2, 4, 4, "v[b, t, g, e]");
  const auto& q = draft.shape(0);
  const auto& v = draft.shape(2);
  const FactorIndex b = draft.factor("b", FactorKind::Sample, q[0]);
  const FactorIndex s = draft.factor("s", FactorKind::Attribute, q[1], true);
  const FactorIndex g = draft.factor("g", FactorKind::Attribute, q[2]);
  const FactorIndex r = draft.factor("r", FactorKind::Attribute, q[3]);
  const FactorIndex t = draft.factor("t", FactorKind::Reduction, v[1], true);
  const FactorIndex e = draft.factor("e", FactorKind::Parameter, v[3]);
  const IndexExpr depth = IndexExpr::whole(q[4]);  // split, scores would be partial before the exponential
  draft.input(0, {draft.axis(b), draft.axis(s), draft.axis(g), draft.axis(r), depth}).saved = true;
  draft.input(1, {draft.axis(b), draft.axis(t), draft.axis(g), depth}).saved = true;
  draft.input(2, draft.axes({b, t, g, e})).saved = true;
  if (what.input) {
    draft.require_rank(3, 4, 5, "bias[g, r, s, t] or bias[b, g, r, s, t], any of them 1");
    draft.input(3, bias_dims(draft, {b, g, r, s, t})).saved = true;
  }
  if (what.buckets > 0) draft.weight("bias", {IndexExpr::whole(what.buckets), draft.axis(g), draft.axis(r)});
  const std::vector<FactorIndex> rows{b, s, g, r}, scores{b, s, g, r, t}, products{b, s, g, r, t, e};
  const bool sinks = draft.added_flag("sinks");
  // A cap divides, takes the hyperbolic tangent and multiplies; its derivative takes as many operations.
  const double d = static_cast<double>(q[4]), capped = draft.added_real("cap", 0) > 0 ? 3 : 0,
               learned = what.buckets > 0 || what.input ? 1 : 0,
               added = learned + capped + (what.alibi ? 1 : 0), sent_back = learned + capped;
  draft.op.flops_forward = {{2, products}, {2 * d + 5 + added, scores}};
  draft.op.flops_backward_input = {{4, products},
                                   {6 * d + added + sent_back, scores}};  // computes the scores again
  if (sinks) add_sinks(draft, rows, t);
  draft.output("", draft.axes({b, s, g, r, e})).saved = true;
  draft.op.saved_extra_bytes = {{4, rows}};  // log of the row's sum
  using enum InnerStep::Reduce;
  const double forward = 2 * (d + static_cast<double>(v[3])) + 5 + added;
  const double backward = 6 * d + 4 * static_cast<double>(v[3]) + added + sent_back;
  draft.op.inner_steps = {{Pass::Forward, Max, {t}, {1, rows}, 4, (2 * d + 1 + added) / forward},
                          {Pass::Forward, Sum, {t}, {1, rows}, 4, (2 * d + 4 + added) / forward},
                          {Pass::BackwardInput, Sum, {t}, {1, rows}, 4, 2 * d / backward}};
  draft.op.matrix = MatrixShape{{b, g, r}, {s}, {t}, {}, 1, 1, q[4], true};
  draft.op.separate.forward = 4;  // the three inputs are brought into the kernel's order
  draft.op.separate.backward_input = 5;
  if (q[1] == v[1] && !what.input) draft.op.rotation = {s, t};
  if (draft.added_flag("keep_copy"))
    draft.op.saved_extra_bytes.push_back({draft.element_bytes(), {b, s, g, r, e}});
  if (draft.added_flag("keep_repeated")) {  // a copy for each query head in place of one for all of them
    const double bytes = draft.element_bytes();
    draft.op.saved_extra_bytes.insert(draft.op.saved_extra_bytes.end(), {{bytes * d, {b, t, g, r}},
                                                                         {-bytes * d, {b, t, g}},
                                                                         {bytes, {b, t, g, r, e}},
                                                                         {-bytes, {b, t, g, e}}});
  }
  if (draft.added_flag("keep_projected")) {
    draft.op.saved_extra_bytes.push_back({draft.element_bytes() * d, {b, s, g, r}});
    draft.op.saved_extra_bytes.push_back({draft.element_bytes() * d, {b, t, g}});
  }
  read_zigzag(draft, q[1]);
  if (draft.op.zigzag > 1) draft.at(t).max_degree = 1;  // the keys that a query sees are scattered
  read_mask(draft, s, t);
}

void build_attention(OperatorDraft& draft) { build_scores(draft, {}); }
void build_alibi_attention(OperatorDraft& draft) { build_scores(draft, {.alibi = true}); }
void build_biased_attention(OperatorDraft& draft) { build_scores(draft, {.input = true}); }

/// Half of the buckets are for keys behind a query unless these are masked, half of a side's for single
/// distances.
void build_relative_attention(OperatorDraft& draft) {
  const std::int64_t buckets = draft.integer("buckets"), farthest = draft.integer("farthest");
  const std::int64_t parts = draft.flag("causal") ? 2 : 4;
  if (buckets % parts != 0 || farthest <= buckets / parts) {
    draft.fail(fmt::format(
        "\"buckets\" is {} and \"farthest\" {}, allowed: buckets that {} divides, and more than buckets / {}",
        buckets, farthest, parts, parts));
  }
  build_scores(draft, {.buckets = buckets});
}

/// Kernels of their own divide scores by a cap, take the hyperbolic tangent, which is kept, and multiply;
/// another one writes the scores with the sink of their head beside them, whose share is kept, too (Gemma 2
/// and gpt-oss of Hugging Face).
void write_changed_scores(OperatorDraft& draft, const std::vector<FactorIndex>& scores) {
  Operator& op = draft.op;
  const double element = draft.element_bytes();
  if (op.attributes.contains("cap")) {
    op.saved_extra_bytes.push_back({element, scores});
    op.bytes_forward_extra.push_back({6 * element, scores});
    op.bytes_backward_extra.push_back({6 * element, scores});
    op.separate.forward += 3;
    op.separate.backward_input += 3;
  }
  if (op.attributes.contains("sinks")) {
    op.saved_extra_bytes.push_back({element, {scores.begin(), scores.end() - 1}});
    op.bytes_forward_extra.push_back({2 * element, scores});
    op.bytes_backward_extra.push_back({2 * element, scores});
    op.separate.forward += 1;
    op.separate.backward_input += 1;
  }
}

/// Its kernels (product, softmax, dropout, product) write the scores and read them again, one after the
/// other; for backward they keep the softmax, and of dropout a mask and what it leaves (Korthikanti et al.,
/// MLSys 2023, section 4.1).
void build_scored_attention(OperatorDraft& draft) {
  const std::int64_t buckets = draft.integer("buckets");
  if (buckets > 0 && draft.flag("alibi"))
    draft.fail("attributes \"buckets\" and \"alibi\" are given, allowed: one of them");
  if (buckets > 0) {
    build_relative_attention(draft);
  } else {
    build_scores(draft, {.alibi = draft.flag("alibi")});
  }
  Operator& op = draft.op;
  std::vector<FactorIndex> scores;
  for (const char* factor : {"b", "s", "g", "r", "t"}) scores.push_back(op.factor(factor));
  const double element = draft.element_bytes(), mask = 1;
  const bool dropout = draft.real("dropout") > 0;
  op.saved_extra_bytes.push_back({dropout ? 2 * element + mask : element, scores});
  op.bytes_forward_extra.push_back({dropout ? 6 * element + mask : 4 * element, scores});
  op.bytes_backward_extra.push_back({dropout ? 7 * element : 5 * element, scores});  // beside what was kept
  if (dropout) {
    op.flops_forward.push_back({2, scores});
    op.flops_backward_input.push_back({2, scores});
  }
  op.separate.forward = dropout ? 8 : 7;  // four copies among them
  op.separate.backward_input = dropout ? 12 : 11;
  op.separate.in_turn = true;
  // Megatron-LM's kernel of scale, mask, softmax and casts takes four batches of scores at a time
  // (is_kernel_available() in megatron/core/fusions/fused_softmax.py).
  op.separate.fused = {{op.factor("b"), op.factor("g"), op.factor("r")}, 4, 4};
  write_changed_scores(draft, scores);
  op.causal.reset();    // masked after the product, which is computed in full
  op.rotation.reset();  // the softmax that it keeps is of all keys at once
}

/// How many elements of the last dimension are rotated, the first ones. Where these are all, models keep the
/// fingerprints that they had before there could be fewer.
std::int64_t rotated_width(OperatorDraft& draft, const std::vector<std::int64_t>& shape) {
  const std::int64_t width = draft.added_integer("width", 0), all = shape.back();
  if (width == 0 && all % 2 != 0) {
    draft.fail(fmt::format("input 0 has shape {}, allowed: an even last dimension, which is rotated in pairs",
                           to_text(shape)));
  }
  if (width % 2 != 0 || width > all) {
    draft.fail(fmt::format("attribute \"width\" is {}, allowed: even numbers up to {}, the last dimension",
                           width, all));
  }
  if (width == all) draft.op.attributes.erase("width");
  return width == 0 ? all : width;
}

void build_rotary(OperatorDraft& draft) {
  draft.require_rank(0, 3, 8, "[b, s, …, d]");
  const auto& shape = draft.shape(0);
  const std::int64_t width = rotated_width(draft, shape);
  std::vector<FactorIndex> rows = {draft.factor("b", FactorKind::Sample, shape[0]),
                                   draft.factor("s", FactorKind::Attribute, shape[1], true)};
  for (std::size_t i = 2; i + 1 < shape.size(); ++i) {
    rows.push_back(draft.factor(i == 2 ? "g" : numbered("r", i - 3), FactorKind::Attribute, shape[i]));
  }
  std::vector<FactorIndex> dims = rows;  // halves of the last are rotated into each other
  dims.push_back(draft.unsplit_factor("d", FactorKind::Attribute, shape.back()));
  draft.input(0, draft.axes(dims));
  draft.output("", draft.axes(dims));
  draft.op.flops_forward = draft.op.flops_backward_input = {
      width == shape.back() ? ProductTerm{3, dims} : ProductTerm{3 * static_cast<double>(width), rows}};
  // Halves are turned, multiplied, added; the part that isn't rotated is put beside them.
  draft.op.separate.forward = draft.op.separate.backward_input = width == shape.back() ? 5 : 6;
  read_zigzag(draft, shape[1]);
}

}  // namespace

std::vector<OperatorKind> attention_kinds() {
  const std::string inputs = "q[b, s, g, r, d], k[b, t, g, d], v[b, t, g, e]";
  const auto causal = AttributeSchema::flag("causal", false, "a query sees the keys up to its own position");
  const auto zigzag =
      AttributeSchema::integer("zigzag",
                               "positions come in the order of 2n chunks that lets n equal parts of the "
                               "sequence do equal work: the first "
                               "and the last chunk, the second and the last but one, and so on",
                               1, 1);
  const auto documents = AttributeSchema::integer(
      "document_length",
      "documents of so many positions are packed into the sequence (the last may be shorter), and a query "
      "sees keys of its own document only; 0: one document",
      0, 0);
  const auto window = AttributeSchema::integer(
      "window",
      "under the causal mask a query sees so many keys at most, its own the last of them; 0: all before it",
      0, 0);
  const auto sinks = AttributeSchema::flag(
      "sinks", false,
      "each head has a learned score that takes part in the softmax and has no value, as in gpt-oss");
  const auto cap = AttributeSchema::real(
      "cap", "scores become cap · tanh(score / cap) before anything is added to them, as in Gemma 2; 0: none",
      0, 1e6, 0.0);
  const auto copy = AttributeSchema::flag(
      "keep_copy", false,
      "keeps its result twice, for the kernel and in the order of the next operator, as FlashAttention in "
      "Megatron-LM does");
  const auto repeated = AttributeSchema::flag(
      "keep_repeated", false,
      "keeps k and v once for each query head, as where they are repeated before attention (repeat_kv of "
      "Hugging Face's Llama and of torchtitan)");
  const auto projected = AttributeSchema::flag("keep_projected", false,
                                               "keeps queries and keys as they were before they were "
                                               "rotated, too: where v is a view of one tensor with "
                                               "all three, it keeps that tensor");
  return {
      {"attention",
       "scaled dot-product attention; g key-value heads, r query heads for each",
       inputs,
       3,
       3,
       {causal, zigzag, documents, window, sinks, cap, copy, repeated, projected},
       {{{"q", {64, 128, 8, 2, 64}}, {"k", {64, 128, 8, 64}}, {"v", {64, 128, 8, 64}}}, {{"causal", 1}}},
       build_attention,
       true},
      {"alibi_attention",
       "attention whose scores fall with the distance of key and query, by a fixed slope of each head, as in "
       "BLOOM",
       inputs,
       3,
       3,
       {causal, zigzag, documents, window, sinks, cap, copy, repeated, projected},
       {{{"q", {64, 128, 8, 2, 64}}, {"k", {64, 128, 8, 64}}, {"v", {64, 128, 8, 64}}}, {{"causal", 1}}},
       build_alibi_attention,
       true},
      {"biased_attention",
       "attention whose scaled scores get an input added: a mask, or biases by position as in Swin",
       inputs + ", bias[g, r, s, t] or bias[b, g, r, s, t], any of them 1",
       4,
       4,
       {causal, zigzag, documents, window, sinks, cap, copy, repeated, projected},
       {{{"q", {64, 49, 3, 1, 32}}, {"k", {64, 49, 3, 32}}, {"v", {64, 49, 3, 32}}, {"bias", {3, 1, 49, 49}}},
        {}},
       build_biased_attention,
       true},
      {"relative_attention",
       "attention whose scores get a learned bias of their head by the distance of key and query, as in T5",
       inputs,
       3,
       3,
       {causal, zigzag, documents, window, sinks, cap, copy, repeated, projected,
        AttributeSchema::integer("buckets", "biases of a head; far distances share them"),
        AttributeSchema::integer("farthest", "from this distance on all share one", 128)},
       {{{"q", {64, 128, 8, 2, 64}}, {"k", {64, 128, 8, 64}}, {"v", {64, 128, 8, 64}}},
        {{"causal", 1}, {"buckets", 32}}},
       build_relative_attention,
       true},
      {"scored_attention",
       "attention that writes its scores, as before FlashAttention, and keeps their softmax for backward",
       inputs,
       3,
       3,
       {causal, zigzag, documents, window, sinks, cap, copy, repeated, projected,
        AttributeSchema::real("dropout", "share of the softmax's elements dropped", 0, 1, 0.0),
        AttributeSchema::integer("buckets", "as of relative_attention; 0: no biases", 0, 0),
        AttributeSchema::integer("farthest", "from this distance on all share one", 128),
        AttributeSchema::flag("alibi", false, "as of alibi_attention: scores fall with the distance")},
       {{{"q", {64, 128, 8, 2, 64}}, {"k", {64, 128, 8, 64}}, {"v", {64, 128, 8, 64}}},
        {{"causal", 1}, {"dropout", 0.1}}},
       build_scored_attention,
       true},
      {"rotary",
       "rotates pairs of elements by an angle that grows with the position s",
       "x[b, s, …, d]",
       1,
       1,
       {zigzag, AttributeSchema::integer("width",
                                         "elements of the last dim that are rotated, the first ones; the "
                                         "others pass as they are; 0: all",
                                         0, 0)},
       {{{"x", {64, 128, 8, 64}}}, {}},
       build_rotary}};
}

}  // namespace pipesim
