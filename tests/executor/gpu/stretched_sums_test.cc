#include <gtest/gtest.h>

#include <vector>

#include "executor/gpu/bodies/binary.h"
#include "executor/gpu/steps/chunks.h"
#include "sim/base/rng.h"
#include "tests/executor/gpu/host_machine.h"

namespace pipesim::gpu {
namespace {

TEST(StretchedSums, AddUpNeighboursByTeamsInChunks) {
  HostMachine machine({.team = 3});
  const auto stream = machine.make_stream(DeviceId(0), StreamUse::Compute);
  constexpr std::int64_t columns = 3, rows = 3'000;
  Rng rng(7);
  std::vector<float> d(columns * rows), x(columns * rows);
  for (std::size_t i = 0; i < d.size(); ++i)
    d[i] = static_cast<float>(rng.uniform() - 0.5), x[i] = static_cast<float>(rng.uniform());
  StretchedTerm term{Floats{d.data()}, Floats{x.data()}, {}, {}};
  term.kept.add(columns, rows);
  term.stretched.add(rows, 1);
  const RowChunks split = chunks_for_teams(rows, columns);
  ASSERT_EQ(split.chunks, 2);
  std::vector<double> partial(columns * 2);
  std::vector<float> sums(columns);
  run(*stream, columns * split.chunks, TeamChunkSums<StretchedTerm>{term, split, partial.data()});
  run(*stream, columns, SumsOfChunks{partial.data(), split, Floats{sums.data()}});
  stream->finish();
  for (std::size_t c = 0; c < columns; ++c) {
    double expected = 0;
    for (std::size_t r = 0; r < rows; ++r)
      expected += static_cast<double>(d[c * rows + r]) * static_cast<double>(x[c * rows + r]);
    EXPECT_NEAR(sums[c], expected, 1e-4);
  }
}

TEST(StretchedSums, KeepADeviceBusyWithTeamsThatHaveEnoughWork) {
  EXPECT_EQ(chunks_for_teams(1 << 24, 1).chunks, 1024);
  EXPECT_EQ(chunks_for_teams(1 << 24, 64).chunks, 16);
  EXPECT_EQ(chunks_for_teams(1024, 1).chunks, 1);
  EXPECT_EQ(chunks_for_teams(0, 5).chunks, 1);
  EXPECT_EQ(chunks_for_teams(1 << 20, 5000).chunks, 1);
}

TEST(Strided, JoinsDimsThatOneStepWalksThrough) {
  Strided joined;
  joined.add(4, 30), joined.add(5, 6), joined.add(1, 77), joined.add(6, 1);
  EXPECT_EQ(joined.dims, 1);
  EXPECT_EQ(joined.at(119), 119);
  Strided stretched;
  stretched.add(2, 3), stretched.add(5, 0), stretched.add(3, 1);
  EXPECT_EQ(stretched.dims, 3);
  EXPECT_EQ(stretched.elements(), 30);
  EXPECT_EQ(stretched.at(15 + 3 * 4 + 2), 3 + 2);
  EXPECT_EQ(Strided{}.at(0), 0);
}

}  // namespace
}  // namespace pipesim::gpu
