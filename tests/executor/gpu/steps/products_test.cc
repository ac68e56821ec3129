#include "executor/gpu/steps/products.h"

#include <gtest/gtest.h>

#include <array>
#include <vector>

#include "sim/base/rng.h"
#include "tests/executor/gpu/host_machine.h"

namespace pipesim::gpu {
namespace {

constexpr std::int64_t kBatch = 2, kRows = 3, kColumns = 5, kInner = 4;

// Matrices of any type, whose rows lie a few elements apart.
struct Matrices {
  Matrices(Stored stored, std::int64_t rows, std::int64_t columns, Rng& rng)
      : row(columns + 2), batch(rows * row + 1), memory(static_cast<std::size_t>(kBatch * batch)) {
    floats = {memory.data(), stored};
    for (std::int64_t i = 0; i < kBatch * batch; ++i) floats.set(i, static_cast<float>(rng.uniform() - 0.5));
  }
  [[nodiscard]] float at(std::int64_t b, std::int64_t i, std::int64_t j) const {
    return floats[b * batch + i * row + j];
  }
  [[nodiscard]] MatrixProduct::Matrix matrix(bool transposed = false) const {
    return {floats, transposed, row, batch};
  }
  std::int64_t row, batch;
  std::vector<float> memory;
  Floats floats;
};

TEST(Products, MultiplyMatricesOfAnyTypes) {
  HostMachine machine;
  const auto stream = machine.make_stream(DeviceId(0), StreamUse::Compute);
  constexpr std::array types{Stored::Float32, Stored::BFloat16, Stored::Float16};
  Rng rng(3);
  for (std::size_t combination = 0; combination < 54; ++combination) {
    const Stored a_type = types[combination % 3], b_type = types[combination / 3 % 3],
                 d_type = types[combination / 9 % 3];
    const bool add = combination >= 27;
    const Matrices a(a_type, kRows, kInner, rng), b(b_type, kColumns, kInner, rng);
    const Matrices d(d_type, kRows, kColumns, rng);
    Matrices was = d;
    was.floats.memory = was.memory.data();
    multiply(*stream, {.rows = kRows,
                       .columns = kColumns,
                       .inner = kInner,
                       .batch = kBatch,
                       .a = a.matrix(),
                       .b = b.matrix(true),
                       .d = d.matrix(),
                       .scale = 2,
                       .accumulate = add});
    stream->finish();
    for (std::int64_t n = 0; n < kBatch; ++n) {
      for (std::int64_t i = 0; i < kRows; ++i) {
        for (std::int64_t j = 0; j < kColumns; ++j) {
          float expected = add ? was.at(n, i, j) : 0;
          for (std::int64_t k = 0; k < kInner; ++k) expected += 2 * a.at(n, i, k) * b.at(n, j, k);
          EXPECT_NEAR(d.at(n, i, j), expected, 1e-2) << "combination " << combination;
        }
        EXPECT_EQ(d.at(n, i, kColumns), was.at(n, i, kColumns)) << "a gap is written";
      }
    }
    stream->free_scratch();
  }
}

TEST(Products, OfNothingAreZeros) {
  HostMachine machine;
  const auto stream = machine.make_stream(DeviceId(0), StreamUse::Compute);
  std::vector<float> d(6, 1);
  const Floats floats{d.data()};
  multiply(*stream, {.rows = 2, .columns = 3, .d = {floats, false, 3, 6}, .accumulate = true});
  stream->finish();
  EXPECT_EQ(d, std::vector<float>(6, 1));
  multiply(*stream, {.rows = 2, .columns = 3, .d = {floats, false, 3, 6}});
  multiply(*stream, {.rows = 0, .columns = 3, .inner = 2, .d = {floats, false, 3, 6}});
  stream->finish();
  EXPECT_EQ(d, std::vector<float>(6, 0));
}

}  // namespace
}  // namespace pipesim::gpu
