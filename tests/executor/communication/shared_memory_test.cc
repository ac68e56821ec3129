#include "executor/communication/shared_memory.h"

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <chrono>
#include <thread>

#include "executor/communication/group_communicator.h"
#include "tests/executor/communication/communicator_conformance.h"
#include "tests/refusal.h"
#include "tests/seeds.h"

namespace pipesim {
namespace {

using namespace std::chrono_literals;

// Each endpoint's thread gets its communicator of all.
void with_members(SharedMemory& world, int members, const std::function<void(Communicator&)>& body) {
  in_threads(
      members, [&](int rank) { body(*world_communicator(world.transport(rank))); },
      [&](const std::string& reason) { world.abort(reason); });
}

class SharedMemoryConformance : public testing::TestWithParam<std::tuple<int, ConformanceCase>> {};

TEST_P(SharedMemoryConformance, Holds) {
  const auto& [members, conformance] = GetParam();
  const std::uint64_t seed = 20240000 + static_cast<std::uint64_t>(members);
  SharedMemory world(members);
  EXPECT_NO_THROW(with_members(
      world, members, [&, &conformance = conformance](Communicator& all) { conformance.run(all, seed); }))
      << "seed " << seed;
}

INSTANTIATE_TEST_SUITE_P(Groups, SharedMemoryConformance,
                         testing::Combine(testing::ValuesIn(sanitized ? std::vector{1, 2, 3, 4}
                                                                      : std::vector{1, 2, 3, 4, 5, 8, 11}),
                                          testing::ValuesIn(conformance_cases().begin(),
                                                            conformance_cases().end())),
                         [](const auto& tested) {
                           return std::get<1>(tested.param).name + std::to_string(std::get<0>(tested.param));
                         });

TEST(SharedMemory, AbortWakesAllAndStaysAborted) {
  SharedMemory world(4);
  std::atomic<int> woken = 0;
  const auto started = std::chrono::steady_clock::now();
  with_members(world, 4, [&](Communicator& all) {
    if (all.rank() == 3) {
      std::this_thread::sleep_for(20ms);
      all.abort("gpu3 ran out of memory");
      all.abort("a later reason");
    }
    for (int again = 0; again < 2; ++again) {
      std::array<float, 100000> data{};
      const auto what = refusal<DeviceError>(
          [&] { all.all_reduce(data.data(), 100000, DataType::Float32, ReduceOperation::Sum, 1); });
      EXPECT_EQ(what, "gpu3 ran out of memory");
      woken += what == "gpu3 ran out of memory" ? 1 : 0;
    }
  });
  EXPECT_EQ(woken, 8);
  EXPECT_LT(std::chrono::steady_clock::now() - started, 5s);
}

// Buffers are freed as soon as a call has thrown; sanitizers see a copy that comes too late.
TEST(SharedMemory, AbortInTheMiddleOfCopies) {
  for (int round = 0; round < 30; ++round) {
    SharedMemory world(4);
    with_members(world, 4, [&](Communicator& all) {
      const auto calls = [&] {
        for (int call = 0; true; ++call) {
          if (all.rank() == round % 4 && call == round) all.abort("stopped");
          std::vector<float> data(50000);
          all.all_reduce(data.data(), 50000, DataType::Float32, ReduceOperation::Sum, call % 3);
        }
      };
      EXPECT_EQ(refusal<DeviceError>(calls), "stopped");
    });
  }
}

TEST(SharedMemory, DifferentSizesOfAMessageAreReported) {
  SharedMemory world(2);
  std::array<std::string, 2> said;
  with_members(world, 2, [&](Communicator& all) {
    std::array<std::int32_t, 4> data{};
    try {
      if (all.rank() == 0) all.send(data.data(), 3, DataType::Int32, 1, 9);
      if (all.rank() == 1) all.receive(data.data(), 4, DataType::Int32, 0, 9);
    } catch (const std::exception& error) {
      said[static_cast<std::size_t>(all.rank())] = error.what();
    }
  });
  for (const std::string& message : said)
    EXPECT_TRUE(message.starts_with("device 0 sent 12 bytes with tag 9 to device 1, which waits for 16"))
        << message;
}

TEST(SharedMemory, GroupsNeedDifferentMembersAndOneself) {
  const SharedMemory world(3);
  const auto all = world_communicator(world.transport(1));
  const auto group_of = [&](const std::vector<int>& members) {
    return refusal<InternalError>([&] { (void)all->group(members); });
  };
  EXPECT_EQ(
      group_of({0, 2}),
      "device 1 of 3 can't be in a group of the devices 0, 2 (this is a bug in pipesim, please report it)");
  EXPECT_EQ(
      group_of({1, 1}),
      "device 1 of 3 can't be in a group of the devices 1, 1 (this is a bug in pipesim, please report it)");
  EXPECT_EQ(group_of({1, 3}), "rank 3 in a group of 3 devices (this is a bug in pipesim, please report it)");
}

}  // namespace
}  // namespace pipesim
