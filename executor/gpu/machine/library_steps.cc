#include "executor/gpu/machine/library_steps.h"

#include <array>

namespace pipesim::gpu {
namespace {

std::int64_t reach(const Convolution& c, std::size_t axis) {
  return (c.kernel[axis] - 1) * c.dilation[axis] + 1;
}

}  // namespace

bool same_with_equal_padding(const Convolution& c) {
  bool same = true;
  for (std::size_t axis = 0; axis < 2; ++axis) {
    const std::int64_t room = c.image[axis] + 2 * c.pad_low[axis] - reach(c, axis);
    same = same && c.pad_low[axis] >= 0 && room >= 0 && room / c.stride[axis] + 1 == c.result[axis];
  }
  return same;
}

void convolve_without_padding(Stream& stream, const Convolution& c,
                              const std::function<void(const Convolution&)>& convolve) {
  Convolution bare = c;
  bare.pad_low = bare.pad_high = {};
  std::array<std::int64_t, 2> before{};
  for (std::size_t axis = 0; axis < 2; ++axis) {
    bare.image[axis] = (c.result[axis] - 1) * c.stride[axis] + reach(c, axis);
    before[axis] = -c.pad_low[axis];
  }
  const std::int64_t planes = c.samples * c.groups * c.in, elements = planes * bare.image[0] * bare.image[1];
  bare.x = {stream.scratch(bytes_of(c.x.stored, elements)), c.x.stored};
  if (c.wanted != Convolution::Wanted::InputGradient) {
    run(stream, elements, CopyWindow{c.x, bare.x, c.image, bare.image, before});
    convolve(bare);
    return;
  }
  convolve(bare);
  run(stream, planes * c.image[0] * c.image[1], CopyWindow{bare.x, c.x, bare.image, c.image, c.pad_low});
}

MatrixProduct some_of_batch(const MatrixProduct& product, std::int64_t first, std::int64_t count) {
  MatrixProduct some = product;
  some.batch = count;
  for (MatrixProduct::Matrix* m : {&some.a, &some.b, &some.d})
    m->elements = m->elements.from(first * m->batch);
  if (some.before.present()) some.before = some.before.from(first * some.d.batch);
  return some;
}

MatrixProduct product_in_scratch(Stream& stream, const MatrixProduct& product) {
  MatrixProduct alone = product;
  const std::int64_t elements = product.rows * product.columns;
  std::byte* memory = stream.scratch(bytes_of(Stored::Float32, product.batch * elements));
  alone.d = {.elements = {memory, Stored::Float32}, .row = product.columns, .batch = elements};
  alone.accumulate = false;
  alone.epilogue = MatrixProduct::Epilogue::None;
  return alone;
}

void finish_product(Stream& stream, const MatrixProduct& p, const Floats& sums) {
  using enum MatrixProduct::Epilogue;
  run(stream, p.batch * p.rows * p.columns,
      FinishProduct{sums, p.d.elements, p.epilogue == None ? Floats{} : p.bias,
                    p.epilogue == BiasGelu ? p.before : Floats{}, p.rows, p.columns, p.d.row, p.d.batch,
                    p.accumulate});
}

}  // namespace pipesim::gpu
