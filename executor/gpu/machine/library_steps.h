#pragma once

#include <cstdint>
#include <functional>

#include "executor/gpu/machine/stream.h"

namespace pipesim::gpu {

// What libraries of devices may leave to bodies.

/// Does a convolution with as many zeros behind as in front of the image, pad_low on either side, have the
/// same result? Libraries know only those.
bool same_with_equal_padding(const Convolution& convolution);
/// A convolution without padding whose windows cover the image, that computes the same: on copies of the
/// image in scratch memory, with zeros around it, or with what no window meets cut off.
void convolve_without_padding(Stream& stream, const Convolution& convolution,
                              const std::function<void(const Convolution&)>& convolve);

/// The product of `count` of its pairs of matrices, from number `first` on.
MatrixProduct some_of_batch(const MatrixProduct& product, std::int64_t first, std::int64_t count);
/// The product alone, of float32 in scratch memory without gaps: neither added nor with an epilogue.
MatrixProduct product_in_scratch(Stream& stream, const MatrixProduct& product);
/// What product_in_scratch() left out, from its result.
void finish_product(Stream& stream, const MatrixProduct& product, const Floats& sums);

}  // namespace pipesim::gpu
