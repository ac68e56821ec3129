#include "executor/gpu/steps/products.h"

#include "executor/gpu/bodies/strided_copy.h"
#include "sim/base/errors.h"

namespace pipesim::gpu {
namespace {

// A copy in float32 with the same strides, gaps included.
void widen(Stream& stream, MatrixProduct::Matrix& m, std::int64_t rows, std::int64_t columns,
           std::int64_t batch) {
  if (m.elements.stored == Stored::Float32) return;
  const std::int64_t kept_rows = m.transposed ? columns : rows, kept_columns = m.transposed ? rows : columns;
  const std::int64_t extent = (batch - 1) * m.batch + (kept_rows - 1) * m.row + kept_columns;
  const Floats wide{stream.scratch(sizeof(float) * static_cast<std::size_t>(extent)), Stored::Float32};
  run(stream, extent, StridedCopy{m.elements, wide, {1, 1, 1, extent}, {0, 0, 0, 1}, {0, 0, 0, 1}});
  m.elements = wide;
}

}  // namespace

bool is_direct(const MatrixProduct& product) {
  const Stored operands = product.a.elements.stored, result = product.d.elements.stored;
  return product.rows > 0 && product.columns > 0 && product.inner > 0 && product.batch > 0 &&
         product.b.elements.stored == operands && (result == operands || result == Stored::Float32);
}

void multiply(Stream& stream, const MatrixProduct& product) {
  if (is_direct(product)) return stream.multiply(product);
  if (product.epilogue != MatrixProduct::Epilogue::None)
    throw InternalError("a product whose operands must be converted has an epilogue");
  const MatrixProduct::Matrix& d = product.d;
  StridedCopy result{.from = {},
                     .to = d.elements,
                     .lengths = {1, product.batch, product.rows, product.columns},
                     .from_strides = {0, product.rows * product.columns, product.columns, 1},
                     .to_strides = {0, d.batch, d.row, 1},
                     .add = product.accumulate};
  if (result.elements() == 0) return;
  if (product.inner > 0) {
    MatrixProduct wide = product;
    widen(stream, wide.a, product.rows, product.inner, product.batch);
    widen(stream, wide.b, product.inner, product.columns, product.batch);
    if (d.elements.stored == Stored::Float32) return stream.multiply(wide);
    result.from = {stream.scratch(sizeof(float) * static_cast<std::size_t>(result.elements())),
                   Stored::Float32};
    wide.d = {result.from, false, result.from_strides[2], result.from_strides[1]};
    wide.accumulate = false;
    stream.multiply(wide);
  }
  run(stream, result.elements(), result);
}

}  // namespace pipesim::gpu
