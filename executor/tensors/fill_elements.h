#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "executor/elements/small_floats.h"
#include "executor/tensors/host_moves.h"
#include "sim/base/errors.h"

namespace pipesim {

/// Calls visit(i, place) for the elements of a box in order: `place` is the element's index in the whole
/// tensor of `shape`, row-major.
template <class Visit>
void for_each_place(const Box& box, const std::vector<std::int64_t>& shape, Visit visit) {
  const std::int64_t row = box.dims() == 0 ? 1 : box[box.dims() - 1].length();
  const std::int64_t rows = row == 0 ? 0 : box.elements() / row;
  for (std::int64_t r = 0; r < rows; ++r) {
    std::int64_t rest = r, place = 0, stride = 1;
    for (std::size_t i = box.dims(); i-- > 0;) {
      const bool last = i + 1 == box.dims();
      const std::int64_t at = last ? 0 : rest % box[i].length();
      if (!last) rest /= box[i].length();
      place += (box[i].begin + at) * stride;
      stride *= shape[i];
    }
    for (std::int64_t i = 0; i < row; ++i) visit(r * row + i, place + i);
  }
}

/// Writes real(place), a float, or index(place), an int64, into every element of a piece of `tensor`.
/// InputError for other types than float32, bfloat16, float16, int64 and int32.
template <class Real, class Index>
void fill_elements(const HostPiece& piece, const Tensor& tensor, Real real, Index index) {
  const auto fill = [&]<class Element>(Element* elements, auto value) {
    for_each_place(piece.box, tensor.shape,
                   [&](std::int64_t i, std::int64_t place) { elements[i] = value(place); });
  };
  switch (piece.type) {
    case DataType::Float32:
    case DataType::TensorFloat32:
      return fill(reinterpret_cast<float*>(piece.memory), real);
    case DataType::BFloat16:
      return fill(reinterpret_cast<std::uint16_t*>(piece.memory),
                  [&](std::int64_t place) { return to_bfloat16(real(place)); });
    case DataType::Float16:
      return fill(reinterpret_cast<std::uint16_t*>(piece.memory),
                  [&](std::int64_t place) { return to_float16(real(place)); });
    case DataType::Int64:
      return fill(reinterpret_cast<std::int64_t*>(piece.memory), index);
    case DataType::Int32:
      return fill(reinterpret_cast<std::int32_t*>(piece.memory),
                  [&](std::int64_t place) { return static_cast<std::int32_t>(index(place)); });
    default:
      throw InputError("tensor \"" + tensor.name + "\" has type " + std::string(name_of(piece.type)) +
                       ", which can't be filled; allowed: float32, bfloat16, float16, int64, int32");
  }
}

}  // namespace pipesim
