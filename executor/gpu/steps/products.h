#pragma once

#include "executor/gpu/machine/stream.h"

namespace pipesim::gpu {

/// A batch of matrices without gaps, kept as [rows, columns] each.
inline MatrixProduct::Matrix dense(const Floats& elements, std::int64_t rows, std::int64_t columns,
                                   bool transposed = false) {
  return {elements, transposed, columns, rows * columns};
}

/// Whether devices' libraries multiply such matrices as they are: both operands of one type, the result of
/// theirs or in float32, none empty.
bool is_direct(const MatrixProduct& product);

/// Stream::multiply() of matrices of any floating-point types, each for itself, and of any lengths: where
/// is_direct() says no, operands and result are converted in scratch memory. Only direct products may have an
/// epilogue.
void multiply(Stream& stream, const MatrixProduct& product);

}  // namespace pipesim::gpu
