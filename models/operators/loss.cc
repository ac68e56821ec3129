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
  const bool keep_softmax = draft.added_flag("keep_softmax");
  const bool keep_log_softmax = draft.added_flag("keep_log_softmax");
  if (keep_softmax && keep_log_softmax) draft.fail("keep_softmax and keep_log_softmax exclude each other");
  const bool keeps = keep_softmax || keep_log_softmax;
  // Kernels in float32. Forward: a copy of x, the largest logit, the difference, its exponential, the sum,
  // the quotient; or a copy and the logarithm of the softmax, which reads twice. Backward: a product; or the
  // gradient of the logarithm, of which most is 0, and from it and the logarithm that of the copy. Then a
  // copy in x's type.
  draft.op.separate.forward = keep_softmax ? 10 : 4;
  draft.op.separate.backward_input = keep_softmax ? 4 : 5;
  draft.op.separate.bytes_forward = {{keep_softmax ? 32.0 : keep_log_softmax ? 12.0 : 16.0, dims}};
  draft.op.separate.bytes_backward_input = {{keep_softmax ? 8.0 : keep_log_softmax ? 16.0 : 18.0, dims}};
  draft.input(0, draft.axes(dims)).saved = !keeps;
  TensorUse& labels = draft.index(1, draft.axes(rows));
  labels.lacks = {{v, Lack::Same}};
  labels.saved = true;
  // Shards along v finish the loss together and all hold it; adding their copies would multiply it.
  draft.output("", {}, DataType::Float32).lacks = {{v, Lack::Same}};
  draft.op.flops_forward = {{4, dims}};
  draft.op.flops_backward_input = {{3, dims}};
  // PyTorch's float32 tensors beside the one that is kept: in forward a copy of x, in backward both
  // gradients. x's own comes when one of them has gone. Where v is split, the loss of DTensor makes one more
  // in forward (the difference to the row's largest logit, with its exponential, then the result) and in
  // backward (the exponential again, the gradient, and their sum): torch/distributed/tensor/parallel/loss.py,
  // _log_softmax() and _nll_loss_and_log_softmax_backward().
  if (keep_log_softmax) {
    draft.op.workspace = Workspace{.rows = {1, rows},
                                   .row_bytes = {4, {v}},
                                   .forward = 1,
                                   .backward = 2,
                                   .one_more_if_split = v,
                                   .makes_room = true};
  }
  if (keeps) {
    draft.op.saved_extra_bytes = {{4, dims}};
    draft.op.bytes_forward_extra = {{4, dims}};
  } else {
    draft.op.saved_extra_bytes = {{4, rows}};  // log of the row's sum
  }
  using enum InnerStep::Reduce;
  draft.op.inner_steps = {{Pass::Forward, Max, {v}, {1, rows}, 4, 1.0 / 4},
                          {Pass::Forward, Sum, {v}, {2, rows}, 4, 3.5 / 4}};
}

// The logits of one part of the rows exist at a time. Backward is one pass, which makes them again once for
// the gradients of both the input and the weight.
void build_linear_cross_entropy(OperatorDraft& draft) {
  draft.require_rank(0, 2, 8, "[b, s…, h]");
  draft.require_integers(1);
  const std::int64_t chunks = draft.integer("chunks");
  std::vector<FactorIndex> rows = {draft.factor("b", FactorKind::Sample, draft.shape(0)[0])};
  for (std::size_t i = 1; i + 1 < draft.rank(0); ++i) {
    rows.push_back(draft.factor(numbered("s", i - 1), FactorKind::Attribute, draft.shape(0)[i], true));
  }
  // A part of h would make a part of every logit, whose exponential needs them all.
  const FactorIndex h = draft.unsplit_factor("h", FactorKind::Reduction, draft.shape(0).back());
  const FactorIndex v = draft.factor("v", FactorKind::Parameter, draft.integer("out"), true);
  std::vector<FactorIndex> inputs = rows, logits = rows;
  inputs.push_back(h);
  logits.push_back(v);
  std::vector<FactorIndex> all = logits;
  all.push_back(h);

  TensorUse& x = draft.input(0, draft.axes(inputs));
  x.saved = true;
  x.backward_passes = 2;  // for the logits, and for the weight's gradient
  TensorUse& labels = draft.index(1, draft.axes(rows));
  labels.lacks = {{v, Lack::Same}};
  labels.saved = true;
  TensorUse& w =
      draft.weight("w", draft.axes(draft.flag("transpose_weight") ? std::vector{v, h} : std::vector{h, v}));
  w.forward_passes = static_cast<double>(chunks);
  w.backward_passes = 2 * w.forward_passes;  // for the logits, and for the input's gradient
  draft.op.remade_products = {{2, all}};
  if (draft.flag("bias")) {
    draft.weight("b", draft.axes({v}));
    draft.op.remade_products.push_back({1, logits});
  }
  draft.output("", {}, DataType::Float32).lacks = {{v, Lack::Same}};

  draft.op.flops_forward = draft.op.remade_products;
  draft.op.flops_forward.push_back({4, logits});
  draft.op.flops_backward_input = draft.op.remade_products;
  draft.op.flops_backward_input.push_back({4, all});  // gradients of x and w
  draft.op.flops_backward_input.push_back({draft.flag("bias") ? 4.0 : 3.0, logits});
  // Logits are written and read twice; backward writes their gradient in their place and reads it twice.
  draft.op.bytes_forward_extra = {{3 * draft.element_bytes(), logits}};
  draft.op.bytes_backward_extra = {{5 * draft.element_bytes(), logits}};
  if (chunks > 1) {  // every part but the first adds to the weight's gradient
    draft.op.bytes_backward_extra.push_back(
        {2 * draft.element_bytes() * static_cast<double>(chunks - 1), {h, v}});
  }
  draft.op.saved_extra_bytes = {{4, rows}};  // log of the row's sum
  draft.op.workspace =
      Workspace{.rows = {1, rows}, .row_bytes = {draft.element_bytes(), {v}}, .parts = chunks};
  draft.op.matrix = MatrixShape{{}, rows, {v}, {h}};
  // Shards add up against their own largest logit, so what is left after each step is work per row.
  const double row_flops =
      (2 * static_cast<double>(draft.at(h).size) + 4) * static_cast<double>(draft.at(v).size);
  using enum InnerStep::Reduce;
  draft.op.inner_steps = {{Pass::Forward, Max, {v}, {1, rows}, 4, 1 - 4 / (row_flops + 4)},
                          {Pass::Forward, Sum, {v}, {2, rows}, 4, 1 - 2 / (row_flops + 4)}};
}

/// The mean over all elements of a function of x and the target.
void build_mean_loss(OperatorDraft& draft, double flops, double flops_backward) {
  const auto dims = plain_factors(draft, draft.shape(0));
  draft.input(0, draft.axes(dims)).saved = true;
  draft.input(1, draft.axes(dims)).saved = true;
  draft.output("", {}, DataType::Float32);
  draft.op.flops_forward = {{flops, dims}};
  draft.op.flops_backward_input = {{flops_backward, dims}};
}

void build_squared_error(OperatorDraft& draft) { build_mean_loss(draft, 3, 2); }
void build_binary_cross_entropy(OperatorDraft& draft) { build_mean_loss(draft, 10, 6); }

OperatorKind mean_loss_kind(const std::string& name, const std::string& help, void (*build)(OperatorDraft&)) {
  return {name, help, "x[any dims], target[as x]", 2, 2, {}, {{{"x", {64, 128}}, {"target", {64, 128}}}, {}},
          build};
}

}  // namespace

std::vector<OperatorKind> loss_kinds() {
  return {mean_loss_kind("squared_error", "the mean of (x − target)² over all elements, a scalar",
                         build_squared_error),
          mean_loss_kind("binary_cross_entropy",
                         "the mean cross entropy of sigmoid(x) and the target over all elements, a scalar",
                         build_binary_cross_entropy),
          {"cross_entropy",
           "softmax cross entropy: the sum over rows by the count of rows in the global batch, a scalar",
           "x[b, s…, v], labels[b, s…]",
           2,
           2,
           {AttributeSchema::flag("keep_softmax", false,
                                  "keeps a float32 softmax for backward and frees x, as Megatron-LM does; "
                                  "else keeps x"),
            AttributeSchema::flag("keep_log_softmax", false,
                                  "keeps the float32 logarithm of the softmax instead, and makes float32 "
                                  "gradients of it and of x, as PyTorch's kernels do one after the other")},
           {{{"x", {64, 128, 32000}}, {"labels", {64, 128}, DataType::Int64}}, {}},
           build_cross_entropy},
          {"linear_cross_entropy",
           "cross_entropy of the logits x · w + b, which are made in parts and again in backward, not kept",
           "x[b, s…, h], labels[b, s…]",
           2,
           2,
           {AttributeSchema::integer("out", "words of the vocabulary"),
            AttributeSchema::integer("chunks", "parts of the rows, worked on one after the other", 8),
            AttributeSchema::flag("bias", false, "adds a bias to the logits"),
            AttributeSchema::flag("transpose_weight", false,
                                  "weight dims listed as [out, in]: a tied projection")},
           {{{"x", {64, 128, 512}}, {"labels", {64, 128}, DataType::Int64}}, {{"out", 32000}}},
           build_linear_cross_entropy}};
}

}  // namespace pipesim
