#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "executor/cpu/kernels/kernel.h"
#include "executor/elements/small_floats.h"
#include "sim/base/data_type.h"
#include "sim/base/rng.h"

namespace pipesim::cpu {

/// An unsplit tensor of a test. Elements of integer tensors are whole numbers.
struct WholeTensor {
  std::vector<std::int64_t> shape;
  bool integers = false;
  std::vector<double> elements;

  /// The element at these indices, one per dimension.
  template <class... Index>
  double& at(Index... index) {
    std::size_t offset = 0, dim = 0;
    ((offset = offset * static_cast<std::size_t>(shape[dim++]) + static_cast<std::size_t>(index)), ...);
    return elements[offset];
  }
  [[nodiscard]] double largest() const {
    double most = 0;
    for (const double e : elements) most = std::max(most, std::abs(e));
    return most;
  }
};

/// One tensor per use of an operator; empty for uses that do not matter here.
using WholeTensors = std::vector<WholeTensor>;

inline WholeTensor filled(const TensorUse& use, double value) {
  WholeTensor t;
  std::size_t elements = 1;
  for (const IndexExpr& dim : use.dims) {
    t.shape.push_back(dim.extent);
    elements *= static_cast<std::size_t>(dim.extent);
  }
  t.elements.assign(elements, value);
  return t;
}

/// Numbers from −1 to 1 that are float32 exactly.
inline void randomise(WholeTensor& t, Rng& rng) {
  for (double& e : t.elements) e = static_cast<double>(static_cast<float>(2 * rng.uniform() - 1));
}

/// Rounds elements to the nearest numbers of a floating-point type.
inline void round_elements(WholeTensor& t, DataType type) {
  if (t.integers) return;
  for (double& e : t.elements) {
    const auto x = static_cast<float>(e);
    if (type == DataType::BFloat16) e = static_cast<double>(from_bfloat16(to_bfloat16(x)));
    if (type == DataType::Float16) e = static_cast<double>(from_float16(to_float16(x)));
  }
}

/// Calls visit(offset in the whole tensor) for a box's elements in row-major order.
template <class Visit>
void for_each_offset(const std::vector<std::int64_t>& shape, const Box& box, Visit visit) {
  for (std::int64_t i = 0; i < box.elements(); ++i) {
    std::int64_t rest = i, offset = 0, stride = 1;
    for (std::size_t d = box.dims(); d-- > 0;) {
      offset += (box[d].begin + rest % box[d].length()) * stride;
      rest /= box[d].length();
      stride *= shape[d];
    }
    visit(static_cast<std::size_t>(offset));
  }
}

/// What one shard holds of a tensor.
struct LocalTensor {
  Box box;
  std::vector<float> floats;
  std::vector<std::int64_t> integers;

  [[nodiscard]] bool present() const { return !floats.empty() || !integers.empty(); }
  [[nodiscard]] Piece piece() {
    return {box, floats.empty() ? nullptr : floats.data(), integers.empty() ? nullptr : integers.data()};
  }
  [[nodiscard]] double at(std::size_t i) const {
    return integers.empty() ? static_cast<double>(floats[i]) : static_cast<double>(integers[i]);
  }

  static LocalTensor absent(const Box& box) { return {box, {}, {}}; }
  static LocalTensor cut_out(const WholeTensor& whole, const Box& box) {
    LocalTensor local{box, {}, {}};
    for_each_offset(whole.shape, box, [&](std::size_t i) {
      if (whole.integers) {
        local.integers.push_back(static_cast<std::int64_t>(whole.elements[i]));
      } else {
        local.floats.push_back(static_cast<float>(whole.elements[i]));
      }
    });
    return local;
  }
  /// To be filled: what a kernel leaves out stays not-a-number.
  static LocalTensor unwritten(const Box& box, bool integers) {
    const auto n = static_cast<std::size_t>(box.empty() ? 0 : box.elements());
    if (integers) return {box, {}, std::vector<std::int64_t>(n, -999)};
    return {box, std::vector<float>(n, std::numeric_limits<float>::quiet_NaN()), {}};
  }
};

/// Elements differ by at most `tolerance` · the largest expected element (or 1e-3 where all are tiny).
inline void expect_close(const WholeTensor& got, const WholeTensor& expected, double tolerance,
                         const std::string& what) {
  ASSERT_EQ(got.elements.size(), expected.elements.size()) << what;
  const double bound = tolerance * std::max(expected.largest(), 1e-3);
  for (std::size_t i = 0; i < expected.elements.size(); ++i) {
    ASSERT_NEAR(got.elements[i], expected.elements[i], bound) << what << ", element " << i;
  }
}

}  // namespace pipesim::cpu
