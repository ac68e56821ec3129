#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "models/box.h"
#include "models/operator.h"

namespace pipesim {

/// A convolution of a shard: [rows, columns] where there are two dims, [planes, rows, columns] where there
/// are three. x[samples, groups·in, image], w[groups·out, in, kernel], y[samples, groups·out, result]; all
/// row-major.
template <std::size_t spatial_dims>
struct ConvolutionOver {
  std::int64_t samples = 0, groups = 1, in = 0, out = 0;  ///< in, out: channels of one group
  std::array<std::int64_t, spatial_dims> image{}, result{}, kernel{}, stride{}, dilation{};
  std::array<std::int64_t, spatial_dims> pad_low{}, pad_high{};  ///< zeros around the image
};
using ConvolutionShape = ConvolutionOver<2>;

/// The shape of a shard of conv1d, conv2d or conv3d. Zeros stand only where windows hang over the border of
/// the whole image: inside, a shard's x holds all that its windows touch. Leading dims that the operator
/// lacks are one element long.
template <std::size_t spatial_dims = 2>
ConvolutionOver<spatial_dims> convolution_shape(const Operator& op, std::span<const Range> ranges);

}  // namespace pipesim
