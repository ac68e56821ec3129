#include "executor/gpu/steps/moves.h"

#include <gtest/gtest.h>

#include <array>
#include <vector>

#include "executor/tensors/host_moves.h"
#include "tests/executor/gpu/host_machine.h"
#include "tests/refusal.h"

namespace pipesim::gpu {
namespace {

constexpr std::array floating{DataType::Float32, DataType::TensorFloat32, DataType::Float64,
                              DataType::BFloat16, DataType::Float16};
constexpr std::array whole_numbers{DataType::Int64, DataType::Int32, DataType::UInt8};

struct Block {
  Box box;
  DataType type = DataType::Float32;
  std::vector<std::byte> bytes;
  HostPiece host() { return {bytes.data(), type, box}; }
  Piece device() { return {box, bytes.data(), type}; }
};

template <class Number>
Block block_of(const Box& box, DataType type, DataType drawn, Rng& rng) {
  Block block{box, type,
              std::vector<std::byte>(static_cast<std::size_t>(box.elements() * bytes_per_element(type)))};
  std::vector<Number> numbers(static_cast<std::size_t>(box.elements()));
  for (Number& n : numbers) n = static_cast<Number>(rng.uniform() * 400 - 200);
  if (!numbers.empty()) numbers[0] = static_cast<Number>(-0.0);
  pipesim::move_region({reinterpret_cast<std::byte*>(numbers.data()), drawn, box}, block.host(), box, false);
  return block;
}

Block random_block(const Box& box, bool integers, Rng& rng) {
  if (integers)
    return block_of<std::int64_t>(box, whole_numbers[rng.below(whole_numbers.size())], DataType::Int64, rng);
  return block_of<double>(box, floating[rng.below(floating.size())], DataType::Float64, rng);
}

struct Boxes {
  Box from, to, region;
};

// Often whole in a dimension, and of even lengths, as real ones are.
Boxes random_boxes(Rng& rng) {
  std::vector<Range> from, to, region;
  const std::uint64_t dims = rng.below(5);
  for (std::uint64_t d = 0; d < dims; ++d) {
    const std::int64_t unit = rng.below(2) == 0 ? 1 : 4, begin = 100 + unit * rng.between(0, 3);
    const Range common{begin, begin + unit * rng.between(1, 4)};
    const auto around = [&] {
      if (rng.below(2) == 0) return common;
      return Range{common.begin - unit * rng.between(0, 2), common.end + unit * rng.between(0, 2)};
    };
    region.push_back(common);
    from.push_back(around());
    to.push_back(around());
  }
  return {Box(from), Box(to), Box(region)};
}

TEST(GpuMoves, MoveWhatHostsMove) {
  HostMachine machine;
  const auto stream = machine.make_stream(DeviceId(0), StreamUse::Compute);
  Rng rng(7);
  for (int times = 0; times < 1000; ++times) {
    const Boxes boxes = random_boxes(rng);
    const bool integers = rng.below(3) == 0, add = rng.below(2) == 0;
    Block from = random_block(boxes.from, integers, rng);
    Block expected = random_block(boxes.to, integers, rng), found = expected;
    pipesim::move_region(from.host(), expected.host(), boxes.region, add);
    const std::int64_t done = machine.done();
    move_region(*stream, from.device(), found.device(), boxes.region, add);
    stream->finish();
    EXPECT_EQ(machine.done(), done + 1);
    ASSERT_EQ(found.bytes, expected.bytes)
        << boxes.region.str() << (add ? " added" : " copied") << " from " << boxes.from.str() << " of "
        << name_of(from.type) << " to " << boxes.to.str() << " of " << name_of(expected.type);
  }
}

TEST(GpuMoves, NothingMovesWhereNothingIs) {
  HostMachine machine;
  const auto stream = machine.make_stream(DeviceId(0), StreamUse::Compute);
  Rng rng(8);
  const Box box = Box::whole(std::array<std::int64_t, 2>{3, 4});
  Box region = box;
  region[0] = {2, 2};
  Block from = random_block(box, false, rng), to = random_block(box, false, rng);
  const Block before = to;
  move_region(*stream, from.device(), to.device(), region, false);
  zero_piece(*stream, {region, to.bytes.data(), to.type});
  stream->finish();
  EXPECT_EQ(to.bytes, before.bytes);
  EXPECT_EQ(machine.done(), 0);
}

TEST(GpuMoves, ZeroesPieces) {
  HostMachine machine;
  const auto stream = machine.make_stream(DeviceId(0), StreamUse::Compute);
  Rng rng(9);
  for (const bool integers : {false, true}) {
    Block block = random_block(Box::whole(std::array<std::int64_t, 2>{3, 5}), integers, rng);
    zero_piece(*stream, block.device());
    stream->finish();
    EXPECT_EQ(block.bytes, std::vector<std::byte>(block.bytes.size()));
  }
}

TEST(GpuMoves, RefuseWhatHostsRefuse) {
  HostMachine machine;
  const auto stream = machine.make_stream(DeviceId(0), StreamUse::Compute);
  const Box box = Box::whole(std::array<std::int64_t, 1>{1});
  Block number{box, DataType::Float16, std::vector<std::byte>(2)};
  Block index{box, DataType::Int32, std::vector<std::byte>(4)};
  const std::string host =
      refusal<InternalError>([&] { pipesim::move_region(number.host(), index.host(), box, false); });
  EXPECT_EQ(
      refusal<InternalError>([&] { move_region(*stream, number.device(), index.device(), box, false); }),
      host);
  EXPECT_NE(host.find("nothing should move from float16 to int32"), std::string::npos) << host;
}

}  // namespace
}  // namespace pipesim::gpu
