#pragma once

#include <cstdint>
#include <functional>

#include "executor/gpu/machine/stream.h"

namespace pipesim::gpu {

// Parts of library calls that bodies can compute instead.

/// Whether the convolution has the same result with equal padding, pad_low on either side of the image.
/// Libraries support only that.
bool same_with_equal_padding(const Convolution& convolution);
/// Computes the same with a convolution without padding whose windows cover the image. It works on a copy of
/// the image in scratch memory, with zeros around it, or with the parts that no window touches cut off.
void convolve_without_padding(Stream& stream, const Convolution& convolution,
                              const std::function<void(const Convolution&)>& convolve);

/// The product of `count` of its pairs of matrices, from pair `first` on.
MatrixProduct some_of_batch(const MatrixProduct& product, std::int64_t first, std::int64_t count);
/// The plain product in float32, written to scratch memory without gaps: nothing is added and there is no
/// epilogue.
MatrixProduct product_in_scratch(Stream& stream, const MatrixProduct& product);
/// Completes `product` from the result of product_in_scratch().
void finish_product(Stream& stream, const MatrixProduct& product, const Floats& sums);

}  // namespace pipesim::gpu
