#pragma once

#include <cstdint>
#include <string>

#include "executor/gpu/bodies/parts/floats.h"
#include "executor/operators/convolution.h"

namespace pipesim::gpu {

// Work for a device's own libraries: cuBLASLt and cuDNN on NVIDIA GPUs. Addresses are in device memory.

/// d = scale · a · b (+ d), of `batch` pairs of matrices. a is [rows, inner], b [inner, columns], d [rows,
/// columns], row-major; a transposed one is kept as [inner, rows] or [columns, inner]. a and b are stored
/// alike. Sums are formed in float32 at least, over TensorFloat32 products where that was allowed.
struct MatrixProduct {
  struct Matrix {
    Floats elements{};
    bool transposed = false;
    std::int64_t row = 0;    ///< elements from one kept row to the next
    std::int64_t batch = 0;  ///< elements from one matrix to the next
  };
  std::int64_t rows = 0, columns = 0, inner = 0, batch = 1;
  Matrix a{}, b{}, d{};
  float scale = 1;
  bool accumulate = false;  ///< d += instead of d =
  enum class Epilogue : std::uint8_t {
    None,
    Bias,      ///< d += bias[column]
    BiasGelu,  ///< d = gelu(d + bias), the tanh form; `before` keeps d + bias
  };
  Epilogue epilogue = Epilogue::None;
  Floats bias{};    ///< stored as d is
  Floats before{};  ///< as d
};

/// A 2-D convolution of a shard: x, w and y stored alike, none of them empty.
struct Convolution : ConvolutionShape {
  enum class Wanted : std::uint8_t { Result, InputGradient, WeightGradient };
  Wanted wanted = Wanted::Result;  ///< overwrites y, x or w from the other two
  Floats x = {}, w = {}, y = {};
};

}  // namespace pipesim::gpu
