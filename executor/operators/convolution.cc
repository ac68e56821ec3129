#include "executor/operators/convolution.h"

#include "executor/operators/attributes.h"

namespace pipesim {

template <std::size_t spatial_dims>
ConvolutionOver<spatial_dims> convolution_shape(const Operator& op, std::span<const Range> ranges) {
  const Box x = box_of(op.uses[0], op, ranges), y = box_of(op.uses.back(), op, ranges);
  ConvolutionOver<spatial_dims> c;
  c.samples = x[0].length();
  c.groups = length_of(op, ranges, "g");
  c.in = length_of(op, ranges, "i");
  c.out = length_of(op, ranges, "o");
  for (auto* sides : {&c.image, &c.result, &c.kernel, &c.stride, &c.dilation}) sides->fill(1);
  const std::size_t lacking = spatial_dims + 2 - x.dims();
  for (std::size_t dim = 2; dim < x.dims(); ++dim) {
    const IndexExpr& window = op.uses[0].dims[dim];
    Overhang over;
    index_range(window, op, ranges, &over);
    const std::size_t i = lacking + dim - 2;
    c.image[i] = x[dim].length();
    c.result[i] = y[dim].length();
    c.kernel[i] = window.kernel;
    c.stride[i] = window.stride;
    c.dilation[i] = window.dilation;
    c.pad_low[i] = over.low;
    c.pad_high[i] = over.high;
  }
  return c;
}

template ConvolutionOver<2> convolution_shape(const Operator& op, std::span<const Range> ranges);
template ConvolutionOver<3> convolution_shape(const Operator& op, std::span<const Range> ranges);

}  // namespace pipesim
