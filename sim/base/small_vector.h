#pragma once

#include <boost/container/small_vector.hpp>
#include <cstddef>
#include <span>

namespace pipesim {

/// A vector that allocates nothing for up to N elements. It also converts to a span, which Boost 1.74's
/// small_vector does not.
template <class T, std::size_t N>
class SmallVector : public boost::container::small_vector<T, N> {
 public:
  using boost::container::small_vector<T, N>::small_vector;
  operator std::span<const T>() const { return {this->data(), this->size()}; }
};

}  // namespace pipesim
