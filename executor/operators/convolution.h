#pragma once

#include <array>
#include <cstdint>
#include <span>

#include "models/box.h"
#include "models/operator.h"

namespace pipesim {

/// A 2-D convolution of a shard, [rows, columns] where there are two. x[samples, groups·in, image],
/// w[groups·out, in, kernel], y[samples, groups·out, result]; all row-major.
struct ConvolutionShape {
  std::int64_t samples = 0, groups = 1, in = 0, out = 0;  ///< in, out: channels of one group
  std::array<std::int64_t, 2> image{}, result{}, kernel{}, stride{}, dilation{};
  std::array<std::int64_t, 2> pad_low{}, pad_high{};  ///< zeros around the image
};

/// The shape of a conv2d shard. Zeros stand only where windows hang over the border of the whole image:
/// inside, a shard's x holds all that its windows touch.
ConvolutionShape convolution_shape(const Operator& op, std::span<const Range> ranges);

}  // namespace pipesim
