#pragma once

#include <cstdint>
#include <string_view>

#include "executor/operators/sum_order.h"

namespace pipesim::cpu {

/// c[rows, columns] = a[rows, inner] · b[inner, columns], all row-major float32 without gaps.
struct Gemm {
  std::int64_t rows = 0, columns = 0, inner = 0;
  bool transpose_a = false;              ///< a is [inner, rows]
  bool transpose_b = false;              ///< b is [columns, inner]
  bool accumulate = false;               ///< c += instead of c =
  SumOrder order = SumOrder::Ascending;  ///< of the inner index
};

/// DeviceError with `name`, the operator's, if oneDNN refuses.
void multiply(const Gemm& gemm, const float* a, const float* b, float* c, std::string_view name);

/// sums[columns] = Σ over rows of m[rows, columns].
void column_sums(const float* m, std::int64_t rows, std::int64_t columns, SumOrder order, float* sums);

}  // namespace pipesim::cpu
