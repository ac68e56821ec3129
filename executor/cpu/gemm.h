#pragma once

#include <cstdint>
#include <string_view>

namespace pipesim::cpu {

/// c[rows, columns] = a[rows, inner] · b[inner, columns], all row-major float32 without gaps.
struct Gemm {
  std::int64_t rows = 0, columns = 0, inner = 0;
  bool transpose_a = false;  ///< a is [inner, rows]
  bool transpose_b = false;  ///< b is [columns, inner]
  bool accumulate = false;   ///< c += instead of c =
  bool reversed = false;     ///< adds up the inner index from the last to the first
};

/// DeviceError with `name`, the operator's, if oneDNN refuses.
void multiply(const Gemm& gemm, const float* a, const float* b, float* c, std::string_view name);

/// sums[columns] = Σ over rows of m[rows, columns].
void column_sums(const float* m, std::int64_t rows, std::int64_t columns, bool reversed, float* sums);

}  // namespace pipesim::cpu
