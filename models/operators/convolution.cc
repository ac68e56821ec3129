#include <fmt/format.h>

#include <algorithm>

#include "models/operator_draft.h"
#include "models/operators/families.h"

namespace pipesim {
namespace {

/// One spatial dimension of a windowed operator.
struct WindowedDimension {
  std::int64_t extent = 1, kernel = 1, stride = 1, dilation = 1, pad = 0;

  [[nodiscard]] std::int64_t room() const { return extent + 2 * pad - (dilation * (kernel - 1) + 1); }
  [[nodiscard]] std::int64_t outputs(bool ceil) const {
    if (!ceil) return room() / stride + 1;
    const std::int64_t n = (room() + stride - 1) / stride + 1;
    return (n - 1) * stride >= extent + pad
               ? n - 1
               : n;  // the last window must start on the image or its left border
  }
  [[nodiscard]] IndexExpr expr(FactorIndex f) const {
    return IndexExpr::window(f, extent, stride, kernel, dilation, pad);
  }
};

/// Rows and columns of input 0, [n, c, h, w].
std::vector<WindowedDimension> windows(OperatorDraft& draft, const std::vector<std::int64_t>& dilation) {
  draft.require_rank(0, 4, 4, "[n, c, h, w]");
  const auto kernel = draft.pair("kernel"), stride = draft.pair("stride"), pad = draft.pair("pad");
  std::vector<WindowedDimension> dims;
  for (std::size_t i = 0; i < 2; ++i) {
    dims.push_back({draft.shape(0)[2 + i], kernel[i], stride[i], dilation[i], pad[i]});
    if (dims[i].room() >= 0) continue;
    draft.fail(fmt::format("input 0 has shape {}, too small for kernel {} with pad {} and dilation {}",
                           to_text(draft.shape(0)), to_text(kernel), to_text(pad), to_text(dilation)));
  }
  return dims;
}

/// Channels as [group, within]: either part is left out where it has length 1.
IndexExpr channels(const OperatorDraft& draft, FactorIndex group, FactorIndex within, std::int64_t extent) {
  if (group < 0) return draft.axis(within);
  if (within < 0) return draft.axis(group);
  return IndexExpr::merged({group, within}, extent);
}

struct ConvolutionFactors {
  FactorIndex n = -1, g = -1, o = -1, i = -1, h = -1, w = -1;
  [[nodiscard]] std::vector<FactorIndex> present(std::initializer_list<FactorIndex> wanted) const {
    std::vector<FactorIndex> list;
    std::copy_if(wanted.begin(), wanted.end(), std::back_inserter(list),
                 [](FactorIndex f) { return f >= 0; });
    return list;
  }
};

ConvolutionFactors convolution_factors(OperatorDraft& draft, const std::vector<WindowedDimension>& spatial) {
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
  f.h = draft.factor("h", FactorKind::Attribute, spatial[0].outputs(false), true);
  f.w = draft.factor("w", FactorKind::Attribute, spatial[1].outputs(false), true);
  return f;
}

void build_conv2d(OperatorDraft& draft) {
  const auto spatial = windows(draft, draft.pair("dilation"));
  const ConvolutionFactors f = convolution_factors(draft, spatial);
  const std::int64_t out = draft.integer("out"), in = draft.shape(0)[1];
  const std::int64_t taps = spatial[0].kernel * spatial[1].kernel;
  const auto result = f.present({f.n, f.g, f.o, f.h, f.w}), reduced = f.present({f.i});

  TensorUse& x = draft.input(
      0, {draft.axis(f.n), channels(draft, f.g, f.i, in), spatial[0].expr(f.h), spatial[1].expr(f.w)});
  x.saved = x.saved_for_weights = true;
  const IndexExpr out_channels = channels(draft, f.g, f.o, out);
  draft.weight("w", {out_channels, f.i < 0 ? IndexExpr::whole(1) : draft.axis(f.i),
                     IndexExpr::whole(spatial[0].kernel), IndexExpr::whole(spatial[1].kernel)});
  const ProductTerm product{2.0 * static_cast<double>(taps), f.present({f.n, f.g, f.o, f.i, f.h, f.w})};
  draft.op.flops_forward = draft.op.flops_backward_input = draft.op.flops_backward_weight = {product};
  if (draft.flag("bias")) {
    TensorUse& bias = draft.weight("b", {out_channels});
    for (const FactorIndex i : reduced) bias.lacks.emplace_back(i, Lack::Once);
    draft.op.flops_forward.push_back({1, result});
    draft.op.flops_backward_weight.push_back({1, result});
  }
  draft.output("", {draft.axis(f.n), out_channels, draft.axis(f.h), draft.axis(f.w)});
  draft.op.matrix = MatrixShape{f.present({f.g}), {f.n, f.h, f.w}, f.present({f.o}), reduced, 1, 1, taps};
  fuse_activation(draft, draft.word("activation"), result, reduced);
}

void build_pool2d(OperatorDraft& draft) {
  auto& stride = std::get<std::vector<std::int64_t>>(draft.op.attributes.at("stride"));
  if (stride.empty()) stride = draft.pair("kernel");
  const auto spatial = windows(draft, {1, 1});
  for (const WindowedDimension& d : spatial) {
    if (d.pad >= d.kernel)
      draft.fail(fmt::format(
          "\"pad\" is {} and \"kernel\" {}, allowed: less pad than kernel, so that no window is all pad",
          to_text(draft.pair("pad")), to_text(draft.pair("kernel"))));
  }
  const bool ceil = draft.flag("ceil"), max = draft.word("mode") == "max";
  const FactorIndex n = draft.factor("n", FactorKind::Sample, draft.shape(0)[0]);
  const FactorIndex c = draft.factor("c", FactorKind::Parameter, draft.shape(0)[1]);
  const FactorIndex h = draft.factor("h", FactorKind::Attribute, spatial[0].outputs(ceil), true);
  const FactorIndex w = draft.factor("w", FactorKind::Attribute, spatial[1].outputs(ceil), true);
  const auto taps = static_cast<double>(spatial[0].kernel * spatial[1].kernel);
  draft.input(0, {draft.axis(n), draft.axis(c), spatial[0].expr(h), spatial[1].expr(w)});
  draft.output("", draft.axes({n, c, h, w}));
  draft.op.flops_forward = {{taps, {n, c, h, w}}};
  draft.op.flops_backward_input = {{max ? 1.0 : taps, {n, c, h, w}}};
  if (max) draft.op.saved_extra_bytes = {{taps > 256 ? 4.0 : 1.0, {n, c, h, w}}};  // which element it was
}

}  // namespace

std::vector<OperatorKind> convolution_kinds() {
  using Schema = AttributeSchema;
  return {
      {"conv2d",
       "2-D convolution",
       "x[n, c, h, w]",
       1,
       1,
       {Schema::integer("out", "output channels"), Schema::integers("kernel", "[rows, columns]"),
        Schema::integers("stride", "[rows, columns]", std::vector<std::int64_t>{1, 1}),
        Schema::integers("pad", "[rows, columns] of zeros on either side", std::vector<std::int64_t>{0, 0},
                         0),
        Schema::integers("dilation", "[rows, columns]", std::vector<std::int64_t>{1, 1}),
        Schema::integer("groups", "input and output channels fall into so many independent groups", 1),
        Schema::flag("bias", true, "adds a bias per output channel"), activation_attribute()},
       {{{"x", {64, 32, 28, 28}}}, {{"out", 64}, {"kernel", 3}, {"pad", 1}}},
       build_conv2d},
      {"pool2d",
       "largest or average element of every window",
       "x[n, c, h, w]",
       1,
       1,
       {Schema::word("mode", "what to take of a window", {"max", "avg"}, "max"),
        Schema::integers("kernel", "[rows, columns]"),
        Schema::integers("stride", "[rows, columns]; the kernel's unless given", std::vector<std::int64_t>{}),
        Schema::integers("pad", "[rows, columns] on either side", std::vector<std::int64_t>{0, 0}, 0),
        Schema::flag("ceil", false, "also windows that begin inside but end outside")},
       {{{"x", {64, 32, 28, 28}}}, {{"kernel", 2}}},
       build_pool2d}};
}

}  // namespace pipesim
