#pragma once

#include "executor/gpu/machine/stream.h"

namespace pipesim::gpu {

/// A batch of matrices without gaps, kept as [rows, columns] each.
inline MatrixProduct::Matrix dense(const Floats& elements, std::int64_t rows, std::int64_t columns,
                                   bool transposed = false) {
  return {elements, transposed, columns, rows * columns};
}

/// Whether devices' libraries multiply such matrices as they are: both operands have one type, the result has
/// their type or float32, and none is empty.
bool is_direct(const MatrixProduct& product);

/// Does the same as Stream::multiply() for matrices of any lengths, each of any floating-point type. Where
/// is_direct() is false, operands and result are converted in scratch memory. Only direct products may have
/// an epilogue.
void multiply(Stream& stream, const MatrixProduct& product);

}  // namespace pipesim::gpu
