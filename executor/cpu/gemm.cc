#include "executor/cpu/gemm.h"

#include <fmt/format.h>

#include <dnnl_debug.h>
#include <algorithm>
#include <dnnl.hpp>
#include <vector>

#include "sim/base/errors.h"

namespace pipesim::cpu {
namespace {

/// A copy of m[rows, columns] with its rows in the opposite order, or its columns.
std::vector<float> mirrored(const float* m, std::int64_t rows, std::int64_t columns, bool flip_rows) {
  std::vector<float> copy(static_cast<std::size_t>(rows * columns));
  for (std::int64_t r = 0; r < rows; ++r) {
    const float* from = m + r * columns;
    if (flip_rows) {
      std::copy(from, from + columns, copy.data() + (rows - 1 - r) * columns);
    } else {
      std::reverse_copy(from, from + columns, copy.data() + r * columns);
    }
  }
  return copy;
}

void multiply_reversed(Gemm gemm, const float* a, const float* b, float* c, std::string_view name) {
  const std::vector<float> a_copy =
      gemm.transpose_a ? mirrored(a, gemm.inner, gemm.rows, true) : mirrored(a, gemm.rows, gemm.inner, false);
  const std::vector<float> b_copy = gemm.transpose_b ? mirrored(b, gemm.columns, gemm.inner, false)
                                                     : mirrored(b, gemm.inner, gemm.columns, true);
  gemm.reversed = false;
  multiply(gemm, a_copy.data(), b_copy.data(), c, name);
}

}  // namespace

void multiply(const Gemm& gemm, const float* a, const float* b, float* c, std::string_view name) {
  const auto [rows, columns, inner, transpose_a, transpose_b, accumulate, reversed] = gemm;
  if (rows == 0 || columns == 0) return;
  if (inner == 0) {
    if (!accumulate) std::fill(c, c + rows * columns, 0.0F);
    return;
  }
  if (reversed) return multiply_reversed(gemm, a, b, c, name);
  const dnnl_status_t status = dnnl_sgemm(
      transpose_a ? 'T' : 'N', transpose_b ? 'T' : 'N', rows, columns, inner, 1.0F, a,
      transpose_a ? rows : inner, b, transpose_b ? inner : columns, accumulate ? 1.0F : 0.0F, c, columns);
  if (status == dnnl_success) return;
  throw DeviceError(fmt::format("operator \"{}\": oneDNN can't multiply {}×{} by {}×{}: {}", name, rows,
                                inner, inner, columns, dnnl_status2str(status)));
}

void column_sums(const float* m, std::int64_t rows, std::int64_t columns, bool reversed, float* sums) {
  std::vector<double> total(static_cast<std::size_t>(columns), 0.0);
  for (std::int64_t i = 0; i < rows; ++i) {
    const float* row = m + (reversed ? rows - 1 - i : i) * columns;
    for (std::int64_t j = 0; j < columns; ++j)
      total[static_cast<std::size_t>(j)] += static_cast<double>(row[j]);
  }
  std::transform(total.begin(), total.end(), sums, [](double t) { return static_cast<float>(t); });
}

}  // namespace pipesim::cpu
