#include "executor/operators/convolution.h"

#include "executor/operators/attributes.h"

namespace pipesim {

ConvolutionShape convolution_shape(const Operator& op, std::span<const Range> ranges) {
  const Box x = box_of(op.uses[0], op, ranges), y = box_of(op.uses.back(), op, ranges);
  ConvolutionShape c;
  c.samples = x[0].length();
  c.groups = length_of(op, ranges, "g");
  c.in = length_of(op, ranges, "i");
  c.out = length_of(op, ranges, "o");
  for (std::size_t i = 0; i < 2; ++i) {
    const IndexExpr& window = op.uses[0].dims[2 + i];
    Overhang over;
    index_range(window, op, ranges, &over);
    c.image[i] = x[2 + i].length();
    c.result[i] = y[2 + i].length();
    c.kernel[i] = window.kernel;
    c.stride[i] = window.stride;
    c.dilation[i] = window.dilation;
    c.pad_low[i] = over.low;
    c.pad_high[i] = over.high;
  }
  return c;
}

}  // namespace pipesim
