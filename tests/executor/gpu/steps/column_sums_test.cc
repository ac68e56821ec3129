#include "executor/gpu/steps/column_sums.h"

#include <gtest/gtest.h>

#include <vector>

#include "sim/base/rng.h"
#include "tests/executor/gpu/host_machine.h"

namespace pipesim::gpu {
namespace {

TEST(ColumnSums, AddUpEveryColumnWhateverItsLength) {
  HostMachine machine;
  const auto stream = machine.make_stream(DeviceId(0), StreamUse::Compute);
  Rng rng(5);
  for (const std::int64_t rows : {0, 1, 15, 33, 1000}) {
    for (const std::int64_t columns : {0, 1, 7, 8, 300, 301}) {
      std::vector<float> matrix(static_cast<std::size_t>(rows * columns));
      for (float& element : matrix) element = static_cast<float>(rng.uniform() - 0.5);
      std::vector<float> sums(static_cast<std::size_t>(columns), -1);
      add_up_columns(*stream, Floats{matrix.data()}, rows, columns, Floats{sums.data()});
      stream->finish();
      for (std::int64_t c = 0; c < columns; ++c) {
        double expected = 0;
        for (std::int64_t r = 0; r < rows; ++r)
          expected += static_cast<double>(matrix[static_cast<std::size_t>(r * columns + c)]);
        EXPECT_NEAR(sums[static_cast<std::size_t>(c)], expected, 1e-5) << rows << " rows, column " << c;
      }
      stream->free_scratch();
    }
  }
}

TEST(RowChunks, AreEnoughToKeepADeviceBusyAndHoldEveryRowOnce) {
  EXPECT_EQ(RowChunks::of(8192, 1024).chunks, 128);
  EXPECT_EQ(RowChunks::of(1 << 20, 8).chunks, 512);
  EXPECT_EQ(RowChunks::of(10, 1024).chunks, 1);
  EXPECT_EQ(RowChunks::of_groups(8192, 4096).chunks, 128);
  EXPECT_EQ(RowChunks::of_groups(100, 4096).chunks, 6);
  const RowChunks uneven = RowChunks::of(1000, 3);
  EXPECT_EQ(uneven.chunks, 62);
  EXPECT_EQ(uneven.begin(0), 0);
  EXPECT_EQ(uneven.begin(uneven.chunks), 1000);
}

}  // namespace
}  // namespace pipesim::gpu
