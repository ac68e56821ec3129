#include "executor/cpu/kernels/gemm.h"

#include <fmt/format.h>

#include <dnnl_debug.h>
#include <algorithm>
#include <dnnl.hpp>
#include <utility>
#include <vector>

#include "sim/base/errors.h"

namespace pipesim::cpu {
namespace {

/// A copy of m[rows, columns] with its rows or its columns in another order.
std::vector<float> reordered(const float* m, std::int64_t rows, std::int64_t columns, bool of_rows,
                             SumOrder order) {
  std::vector<float> copy(static_cast<std::size_t>(rows * columns));
  for (std::int64_t r = 0; r < rows; ++r) {
    const float* from = m + (of_rows ? term_at(order, r, rows) : r) * columns;
    float* to = copy.data() + r * columns;
    for (std::int64_t c = 0; c < columns; ++c) to[c] = from[of_rows ? c : term_at(order, c, columns)];
  }
  return copy;
}

void multiply_reordered(Gemm gemm, const float* a, const float* b, float* c, std::string_view name) {
  const SumOrder order = std::exchange(gemm.order, SumOrder::Ascending);
  const bool rows_of_a = gemm.transpose_a, rows_of_b = !gemm.transpose_b;
  const std::vector<float> a_copy =
      reordered(a, rows_of_a ? gemm.inner : gemm.rows, rows_of_a ? gemm.rows : gemm.inner, rows_of_a, order);
  const std::vector<float> b_copy = reordered(b, rows_of_b ? gemm.inner : gemm.columns,
                                              rows_of_b ? gemm.columns : gemm.inner, rows_of_b, order);
  multiply(gemm, a_copy.data(), b_copy.data(), c, name);
}

}  // namespace

void multiply(const Gemm& gemm, const float* a, const float* b, float* c, std::string_view name) {
  const auto [rows, columns, inner, transpose_a, transpose_b, accumulate, order] = gemm;
  if (rows == 0 || columns == 0) return;
  if (inner == 0) {
    if (!accumulate) std::fill(c, c + rows * columns, 0.0F);
    return;
  }
  if (order != SumOrder::Ascending) return multiply_reordered(gemm, a, b, c, name);
  const dnnl_status_t status = dnnl_sgemm(
      transpose_a ? 'T' : 'N', transpose_b ? 'T' : 'N', rows, columns, inner, 1.0F, a,
      transpose_a ? rows : inner, b, transpose_b ? inner : columns, accumulate ? 1.0F : 0.0F, c, columns);
  if (status == dnnl_success) return;
  throw DeviceError(fmt::format("operator \"{}\": oneDNN can't multiply {}×{} by {}×{}: {}", name, rows,
                                inner, inner, columns, dnnl_status2str(status)));
}

void column_sums(const float* m, std::int64_t rows, std::int64_t columns, SumOrder order, float* sums) {
  std::vector<double> total(static_cast<std::size_t>(columns), 0.0);
  for (std::int64_t i = 0; i < rows; ++i) {
    const float* row = m + term_at(order, i, rows) * columns;
    for (std::int64_t j = 0; j < columns; ++j)
      total[static_cast<std::size_t>(j)] += static_cast<double>(row[j]);
  }
  std::transform(total.begin(), total.end(), sums, [](double t) { return static_cast<float>(t); });
}

}  // namespace pipesim::cpu
