#pragma once

#include <cstddef>

namespace pipesim {

/// Bytes that the vectors have allocated for their elements: capacity times element size, summed.
template <class... Vectors>
std::size_t allocated_bytes(const Vectors&... vectors) {
  return (std::size_t{0} + ... + (vectors.capacity() * sizeof(vectors[0])));
}

}  // namespace pipesim
