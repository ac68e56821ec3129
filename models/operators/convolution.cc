#include <fmt/format.h>

#include <numeric>

#include "models/operators/families.h"
#include "models/operators/images.h"

namespace pipesim {
namespace {

struct ConvolutionFactors {
  FactorIndex n = -1, g = -1, o = -1, i = -1;
  std::vector<FactorIndex> spatial;

  [[nodiscard]] std::vector<FactorIndex> all() const { return present_factors({n, g, o, i}, spatial); }
  [[nodiscard]] std::vector<FactorIndex> result() const { return present_factors({n, g, o}, spatial); }
  [[nodiscard]] std::vector<FactorIndex> rows() const { return present_factors({n}, spatial); }
  [[nodiscard]] std::vector<FactorIndex> reduced() const { return present_factors({i}); }
};

ConvolutionFactors convolution_factors(OperatorDraft& draft, const std::vector<std::int64_t>& spatial) {
  const std::int64_t out = draft.integer("out"), groups = draft.integer("groups"), in = draft.shape(0)[1];
  if (in % groups != 0 || out % groups != 0) {
    draft.fail(fmt::format("input 0 has shape {} and \"out\" is {}, allowed: channels that {} groups divide",
                           to_text(draft.shape(0)), out, groups));
  }
  ConvolutionFactors f;
  f.n = draft.factor("n", FactorKind::Sample, draft.shape(0)[0]);
  if (groups > 1) f.g = draft.factor("g", FactorKind::Parameter, groups);
  if (groups == 1 || out > groups) f.o = draft.factor("o", FactorKind::Parameter, out / groups);
  if (groups == 1 || in > groups) f.i = draft.factor("i", FactorKind::Reduction, in / groups);
  f.spatial = spatial_factors(draft, spatial);
  return f;
}

IndexExpr axis_or_one(const OperatorDraft& draft, FactorIndex f) {
  return f < 0 ? IndexExpr::whole(1) : draft.axis(f);
}

std::int64_t product_of(const std::vector<std::int64_t>& sizes) {
  return std::accumulate(sizes.begin(), sizes.end(), std::int64_t{1}, std::multiplies<>());
}

/// x, whose spatial dims come last in `dims`, and the kernel.
void add_operands(OperatorDraft& draft, std::vector<IndexExpr> x, std::vector<IndexExpr> kernel) {
  TensorUse& image = draft.input(0, std::move(x));
  image.saved = image.saved_for_weights = true;
  for (const std::int64_t side : draft.list("kernel")) kernel.push_back(IndexExpr::whole(side));
  draft.weight("w", std::move(kernel));
}

/// Where sums over input channels are split, one shard of several adds the bias.
void add_convolution_bias(OperatorDraft& draft, const ConvolutionFactors& f, const IndexExpr& channels,
                          double results) {
  if (!draft.flag("bias")) return;
  TensorUse& bias = draft.weight("b", {channels});
  for (const FactorIndex i : f.reduced()) bias.lacks.emplace_back(i, Lack::Once);
  draft.op.flops_forward.push_back({results, f.result()});
  draft.op.flops_backward_weight.push_back({results, f.result()});
}

template <std::size_t spatial_dims>
void build_convolution(OperatorDraft& draft) {
  const auto windows = windowed_dimensions(draft, spatial_dims, true);
  std::vector<std::int64_t> results;
  for (const WindowedDimension& d : windows) results.push_back(d.outputs(false));
  const ConvolutionFactors f = convolution_factors(draft, results);
  const std::int64_t out = draft.integer("out"), in = draft.shape(0)[1];
  const std::int64_t taps = product_of(draft.list("kernel"));

  std::vector<IndexExpr> x{draft.axis(f.n), grouped_channels(draft, f.g, f.i, in)};
  for (std::size_t d = 0; d < spatial_dims; ++d) x.push_back(windows[d].expr(f.spatial[d]));
  const IndexExpr out_channels = grouped_channels(draft, f.g, f.o, out);
  add_operands(draft, std::move(x), {out_channels, axis_or_one(draft, f.i)});
  const ProductTerm product{2.0 * static_cast<double>(taps), f.all()};
  draft.op.flops_forward = draft.op.flops_backward_input = draft.op.flops_backward_weight = {product};
  add_convolution_bias(draft, f, out_channels, 1);
  std::vector<IndexExpr> y{draft.axis(f.n), out_channels};
  for (const FactorIndex side : f.spatial) y.push_back(draft.axis(side));
  draft.output("", std::move(y));
  draft.op.matrix =
      MatrixShape{present_factors({f.g}), f.rows(), present_factors({f.o}), f.reduced(), 1, 1, taps};
  fuse_activation(draft, draft.word("activation"), f.result(), f.reduced());
}

/// A spatial dimension of a transposed convolution. Input row r adds to the results r·stride − pad +
/// dilation·[0, kernel). A factor runs over blocks of `stride` results, which neighbouring rows reach: cut
/// between blocks, shards need no more rows than their results do.
struct SpreadDimension {
  std::int64_t extent = 1, kernel = 1, stride = 1, dilation = 1, pad = 0, output_pad = 0;

  [[nodiscard]] std::int64_t reach() const { return dilation * (kernel - 1); }
  [[nodiscard]] std::int64_t results() const {
    return (extent - 1) * stride - 2 * pad + reach() + output_pad + 1;
  }
  [[nodiscard]] std::int64_t blocks() const { return (results() + stride - 1) / stride; }
  /// Block h needs the rows from ⌈(h·stride + pad − reach)/stride⌉ to ⌊(h·stride + stride − 1 + pad)/stride⌋.
  [[nodiscard]] IndexExpr rows(FactorIndex f) const {
    const std::int64_t behind = (stride - 1 + pad) / stride;
    const std::int64_t room = reach() - pad;
    const std::int64_t before = room >= 0 ? room / stride : -((-room + stride - 1) / stride);
    return IndexExpr::window(f, extent, 1, before + behind + 1, 1, before);
  }
};

std::vector<SpreadDimension> spread_dimensions(OperatorDraft& draft, std::size_t spatial_dims) {
  draft.require_rank(0, 2 + spatial_dims, 2 + spatial_dims, image_text(spatial_dims));
  const auto kernel = sides(draft, "kernel", spatial_dims), stride = sides(draft, "stride", spatial_dims);
  const auto dilation = sides(draft, "dilation", spatial_dims), pad = sides(draft, "pad", spatial_dims);
  const auto output_pad = sides(draft, "output_pad", spatial_dims);
  std::vector<SpreadDimension> dims;
  for (std::size_t i = 0; i < spatial_dims; ++i) {
    dims.push_back({draft.shape(0)[2 + i], kernel[i], stride[i], dilation[i], pad[i], output_pad[i]});
    if (dims[i].results() > 0) continue;
    draft.fail(fmt::format("input 0 has shape {}, too small for kernel {} with pad {}",
                           to_text(draft.shape(0)), to_text(kernel), to_text(pad)));
  }
  return dims;
}

/// fuse_activation() where each element of `blocks` stands for so many results.
void fuse_activation_over_blocks(OperatorDraft& draft, const ConvolutionFactors& f, double results) {
  Operator& op = draft.op;
  const std::vector<std::vector<ProductTerm>*> lists{&op.flops_forward, &op.flops_backward_input,
                                                     &op.saved_extra_bytes, &op.separate.bytes_forward,
                                                     &op.separate.bytes_backward_input};
  std::vector<std::size_t> before;
  for (const auto* list : lists) before.push_back(list->size());
  fuse_activation(draft, draft.word("activation"), f.result(), f.reduced());
  for (std::size_t l = 0; l < lists.size(); ++l) {
    for (std::size_t t = before[l]; t < lists[l]->size(); ++t) (*lists[l])[t].coefficient *= results;
  }
}

/// FLOPs are those of an input row under the whole kernel, counted by blocks, so that shards add up. There
/// are about as many blocks as rows; the border has more of them or, with much padding, fewer.
template <std::size_t spatial_dims>
void build_transposed_convolution(OperatorDraft& draft) {
  const auto spread = spread_dimensions(draft, spatial_dims);
  std::vector<std::int64_t> blocks;
  for (const SpreadDimension& d : spread) blocks.push_back(d.blocks());
  const ConvolutionFactors f = convolution_factors(draft, blocks);
  const std::int64_t out = draft.integer("out"), in = draft.shape(0)[1];
  const std::int64_t taps = product_of(draft.list("kernel"));
  const auto results = static_cast<double>(product_of(draft.list("stride")));  // of a block

  const IndexExpr in_channels = grouped_channels(draft, f.g, f.i, in);
  std::vector<IndexExpr> x{draft.axis(f.n), in_channels};
  for (std::size_t d = 0; d < spatial_dims; ++d) x.push_back(spread[d].rows(f.spatial[d]));
  add_operands(draft, std::move(x), {in_channels, axis_or_one(draft, f.o)});
  const ProductTerm product{2.0 * static_cast<double>(taps), f.all()};
  draft.op.flops_forward = draft.op.flops_backward_input = draft.op.flops_backward_weight = {product};
  const IndexExpr out_channels = grouped_channels(draft, f.g, f.o, out);
  add_convolution_bias(draft, f, out_channels, results);
  std::vector<IndexExpr> y{draft.axis(f.n), out_channels};
  for (std::size_t d = 0; d < spatial_dims; ++d)
    y.push_back(IndexExpr::blocks(f.spatial[d], spread[d].results(), spread[d].stride));
  draft.output("", std::move(y));
  draft.op.matrix =
      MatrixShape{present_factors({f.g}), f.rows(), present_factors({f.o}), f.reduced(), 1, taps, 1};
  fuse_activation_over_blocks(draft, f, results);
}

std::vector<AttributeSchema> with_channels(std::vector<AttributeSchema> attributes,
                                           std::size_t spatial_dims) {
  using Schema = AttributeSchema;
  attributes.insert(attributes.begin(), Schema::integer("out", "output channels"));
  attributes.push_back(
      Schema::integers("dilation", sides_text(spatial_dims), std::vector<std::int64_t>(spatial_dims, 1)));
  attributes.push_back(
      Schema::integer("groups", "input and output channels fall into so many independent groups", 1));
  attributes.push_back(Schema::flag("bias", true, "adds a bias per output channel"));
  attributes.push_back(activation_attribute());
  return attributes;
}

OperatorExample example_image(std::size_t spatial_dims, Attributes attributes) {
  const std::vector<std::vector<std::int64_t>> shapes{
      {}, {64, 32, 128}, {64, 32, 28, 28}, {64, 32, 8, 28, 28}};
  return {{{"x", shapes[spatial_dims]}}, std::move(attributes)};
}

}  // namespace

std::vector<OperatorKind> convolution_kinds() {
  using Schema = AttributeSchema;
  using Sides = std::vector<std::int64_t>;
  std::vector<OperatorKind> kinds;
  const auto add = [&](const std::string& kind, std::size_t dims, const std::string& help,
                       std::vector<Schema> attributes, Attributes example, void (*build)(OperatorDraft&)) {
    kinds.push_back({fmt::format("{}{}d", kind, dims), fmt::format("{}-D {}", dims, help),
                     "x" + image_text(dims), 1, 1, with_channels(std::move(attributes), dims),
                     example_image(dims, std::move(example)), build});
  };
  const auto add_convolution = [&](std::size_t dims, void (*build)(OperatorDraft&)) {
    const std::string each = sides_text(dims);
    add("conv", dims, "convolution",
        {Schema::integers("kernel", each), Schema::integers("stride", each, Sides(dims, 1)),
         Schema::integers("pad", each + " of zeros on either side", Sides(dims, 0), 0),
         Schema::integers("pad_end", each + " of zeros behind the last; the pad's unless given", Sides{}, 0)},
        {{"out", 64}, {"kernel", 3}, {"pad", 1}}, build);
  };
  const auto add_transposed = [&](std::size_t dims, void (*build)(OperatorDraft&)) {
    const std::string each = sides_text(dims);
    add("conv_transpose", dims, "transposed convolution: each input element adds a kernel to the result",
        {Schema::integers("kernel", each),
         Schema::integers("stride", each + " between kernels", Sides(dims, 1)),
         Schema::integers("pad", each + " cut off on either side of the result", Sides(dims, 0), 0),
         Schema::integers("output_pad", each + " left uncut at the result's end", Sides(dims, 0), 0)},
        {{"out", 16}, {"kernel", 4}, {"stride", 2}, {"pad", 1}}, build);
  };
  add_convolution(1, build_convolution<1>);
  add_convolution(2, build_convolution<2>);
  add_convolution(3, build_convolution<3>);
  add_transposed(1, build_transposed_convolution<1>);
  add_transposed(2, build_transposed_convolution<2>);
  add_transposed(3, build_transposed_convolution<3>);
  return kinds;
}

}  // namespace pipesim
