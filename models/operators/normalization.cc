#include <fmt/format.h>

#include "models/operator_draft.h"
#include "models/operators/families.h"
#include "models/operators/images.h"

namespace pipesim {
namespace {

constexpr std::int64_t statistic_bytes =
    8;  ///< sums of squares in float32 lose the variance of off-centre data

std::vector<FactorIndex> all_but_last(std::vector<FactorIndex> factors) {
  factors.pop_back();
  return factors;
}

/// The weights gamma and beta follow the channels or the hidden dim; their gradients leave the input pass as
/// local sums.
void build_batch_norm(OperatorDraft& draft) {
  draft.require_rank(0, 2, 2 + most_spatial_dims, "[n, c] to [n, c, d, h, w]");
  const bool synchronised = draft.word("statistics") == "synchronised";
  const auto dims = plain_factors(draft, draft.shape(0));
  const FactorIndex c = dims[1];
  std::vector<FactorIndex> counted{dims[0]};
  counted.insert(counted.end(), dims.begin() + 2, dims.end());
  TensorUse& x = draft.input(0, draft.axes(dims));
  x.saved = true;
  x.forward_passes = x.backward_passes = 2;
  draft.weight("gamma", {draft.axis(c)});
  draft.weight("beta", {draft.axis(c)});
  for (const char* name : {"running_mean", "running_var"}) {
    TensorUse& state = draft.state(name, {draft.axis(c)});
    for (const FactorIndex f : counted) state.lacks.emplace_back(f, synchronised ? Lack::Same : Lack::Once);
  }
  draft.output("", draft.axes(dims)).backward_passes = 2;
  draft.op.flops_forward = {{7, dims}};
  draft.op.flops_backward_input = {{11, dims}};
  draft.op.saved_extra_bytes = {{8, {c}}};  // mean and 1/σ in float32
  if (synchronised) {
    using enum InnerStep::Reduce;
    draft.op.inner_steps = {{Pass::Forward, Sum, counted, {2, {c}}, statistic_bytes, 3.0 / 7},
                            {Pass::BackwardInput, Sum, counted, {2, {c}}, statistic_bytes, 4.0 / 11}};
  }
  fuse_activation(draft, draft.word("activation"), dims, {});
}

/// Groups of channels, each sample's own.
void build_group_norm(OperatorDraft& draft) {
  draft.require_rank(0, 2, 2 + most_spatial_dims, "[n, c] to [n, c, d, h, w]");
  const std::vector<std::int64_t> shape = draft.shape(0);
  const std::int64_t groups = draft.integer("groups"), channels = shape[1];
  if (channels % groups != 0) {
    draft.fail(
        fmt::format("input 0 has shape {}, allowed: channels that {} groups divide", to_text(shape), groups));
  }
  const FactorIndex n = draft.factor("n", FactorKind::Sample, shape[0]);
  const FactorIndex g = groups > 1 ? draft.factor("g", FactorKind::Parameter, groups) : -1;
  const FactorIndex c =
      groups == 1 || channels > groups ? draft.factor("c", FactorKind::Parameter, channels / groups) : -1;
  const auto spatial = spatial_factors(draft, {shape.begin() + 2, shape.end()});
  const auto elements = present_factors({n, g, c}, spatial), rows = present_factors({n, g}),
             counted = present_factors({c}, spatial);
  if (counted.empty()) {
    draft.fail(fmt::format("input 0 has shape {}, allowed: groups of more than an element", to_text(shape)));
  }
  std::vector<IndexExpr> x{draft.axis(n), grouped_channels(draft, g, c, channels)};
  for (const FactorIndex side : spatial) x.push_back(draft.axis(side));
  draft.input(0, x).saved = true;
  if (draft.flag("affine")) {
    draft.weight("gamma", {x[1]});
    draft.weight("beta", {x[1]});
  }
  draft.output("", x);
  draft.op.flops_forward = {{7, elements}};
  draft.op.flops_backward_input = {{11, elements}};
  draft.op.saved_extra_bytes = {{8, rows}};  // mean and 1/σ in float32
  using enum InnerStep::Reduce;
  draft.op.inner_steps = {{Pass::Forward, Sum, counted, {2, rows}, statistic_bytes, 3.0 / 7},
                          {Pass::BackwardInput, Sum, counted, {2, rows}, statistic_bytes, 5.0 / 11}};
}

/// Models keep the fingerprints that they had before the weights could be left out.
bool scales_rows(OperatorDraft& draft) {
  const bool affine = draft.flag("affine");
  if (affine) draft.op.attributes.erase("affine");
  return affine;
}

/// The factor of the groups into which the last dim falls, each a row of its own; −1 where there is one. The
/// factor `h` of the last dim becomes that of one group.
FactorIndex row_groups(OperatorDraft& draft, FactorIndex h) {
  const std::int64_t groups = draft.added_integer("groups", 1), width = draft.at(h).size;
  if (groups == 1) return -1;
  if (width % groups != 0 || width == groups) {
    draft.fail(
        fmt::format("input 0 has shape {}, allowed: a last dimension of {} groups of more than an element",
                    to_text(draft.shape(0)), groups));
  }
  draft.at(h).size = width / groups;
  return draft.factor("p", FactorKind::Parameter, groups);
}

void build_row_norm(OperatorDraft& draft) {
  const bool rms = draft.op.kind == "rms_norm";
  draft.require_rank(0, 1, 8, "[b, s…, h]");
  std::vector<FactorIndex> dims = plain_factors(draft, draft.shape(0)), rows = all_but_last(dims);
  const FactorIndex h = dims.back(), p = rms ? row_groups(draft, h) : -1;
  const IndexExpr columns = grouped_channels(draft, p, h, draft.shape(0).back());
  std::vector<IndexExpr> elements = draft.axes(rows);
  elements.push_back(columns);
  if (p >= 0) dims.push_back(p), rows.push_back(p);
  TensorUse& x = draft.input(0, elements);
  x.saved = true;
  if (rms && draft.added_flag("keep_float32") && draft.type() != DataType::Float32)
    x.saved_as = DataType::Float32;
  if (scales_rows(draft)) {
    draft.weight("gamma", {columns});
    if (!rms) draft.weight("beta", {columns});
  }
  draft.output("", elements);
  draft.op.separate.norm = true;
  const double statistics = rms ? 1 : 2;
  draft.op.flops_forward = {{rms ? 5.0 : 7.0, dims}};
  draft.op.flops_backward_input = {{rms ? 8.0 : 11.0, dims}};
  draft.op.saved_extra_bytes = {{4 * statistics, rows}};
  if (rms && draft.added_flag("keep_normalised"))
    draft.op.saved_extra_bytes.push_back({draft.element_bytes(), dims});
  using enum InnerStep::Reduce;
  draft.op.inner_steps = {
      {Pass::Forward, Sum, {h}, {statistics, rows}, statistic_bytes, rms ? 2.0 / 5 : 3.0 / 7},
      {Pass::BackwardInput, Sum, {h}, {statistics, rows}, statistic_bytes, rms ? 3.0 / 8 : 5.0 / 11}};
}

void build_softmax(OperatorDraft& draft) {
  draft.require_rank(0, 1, 8, "[b, s…, v]");
  const auto dims = plain_factors(draft, draft.shape(0));
  const auto rows = all_but_last(dims);
  const FactorIndex v = dims.back();
  draft.at(v).name = "v";
  draft.at(v).kind = FactorKind::Attribute;
  draft.at(v).uneven = true;
  draft.input(0, draft.axes(dims));
  draft.output("", draft.axes(dims)).saved = true;
  draft.op.flops_forward = {{5, dims}};
  draft.op.flops_backward_input = {{4, dims}};
  using enum InnerStep::Reduce;
  draft.op.inner_steps = {{Pass::Forward, Max, {v}, {1, rows}, 4, 1.0 / 5},
                          {Pass::Forward, Sum, {v}, {1, rows}, 4, 4.0 / 5},
                          {Pass::BackwardInput, Sum, {v}, {1, rows}, 4, 2.0 / 4}};
}

}  // namespace

std::vector<OperatorKind> normalization_kinds() {
  return {
      {"batch_norm",
       "normalises every channel over samples and spatial dims",
       "x[n, c, spatial…]",
       1,
       1,
       {AttributeSchema::word("statistics",
                              "over all shards, or of each shard alone: local changes the model when split",
                              {"synchronised", "local"}, "synchronised"),
        activation_attribute()},
       {{{"x", {64, 32, 28, 28}}}, {{"activation", "relu"}}},
       build_batch_norm},
      {"group_norm",
       "normalises groups of channels of every sample; as many groups as channels: instance norm",
       "x[n, c, spatial…]",
       1,
       1,
       {AttributeSchema::integer("groups", "into which the channels fall"),
        AttributeSchema::flag("affine", true, "scales and shifts every channel by gamma and beta")},
       {{{"x", {64, 32, 28, 28}}}, {{"groups", 8}}},
       build_group_norm},
      {"layer_norm",
       "normalises the last dim by mean and variance",
       "x[b, s…, h]",
       1,
       1,
       {AttributeSchema::flag("affine", true, "multiplies by gamma and adds beta, which are learned")},
       {{{"x", {64, 128, 512}}}, {}},
       build_row_norm},
      {"rms_norm",
       "normalises the last dim by its root mean square",
       "x[b, s…, h]",
       1,
       1,
       {AttributeSchema::integer(
            "groups",
            "into which the last dim falls, each normalised by itself; gamma runs over all, as in Mamba 2",
            1),
        AttributeSchema::flag("affine", true, "multiplies by gamma, which is learned"),
        AttributeSchema::flag("keep_float32", false, "counts x in float32 as what backward needs of it"),
        AttributeSchema::flag("keep_normalised", false,
                              "counts the rows that gamma scales, too, which gamma's gradient needs where "
                              "each step is a kernel of its own")},
       {{{"x", {64, 128, 512}}}, {}},
       build_row_norm},
      {"softmax",
       "softmax over the last dim",
       "x[b, s…, v]",
       1,
       1,
       {},
       {{{"x", {64, 128, 512}}}, {}},
       build_softmax}};
}

}  // namespace pipesim
