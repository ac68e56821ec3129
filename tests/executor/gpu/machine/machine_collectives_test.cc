#include "executor/gpu/machine/machine_collectives.h"

#include <gtest/gtest.h>

#include "sim/base/errors.h"
#include "tests/executor/communication/communicator_conformance.h"
#include "tests/executor/gpu/cuda_for_tests.h"
#include "tests/executor/gpu/host_machine.h"
#include "tests/executor/gpu/machine_world.h"
#include "tests/refusal.h"

namespace pipesim::gpu {
namespace {

// A machine whose devices are parts of a GPU, or the host's own machine.
std::unique_ptr<Machine> tested_machine(int devices, std::uint64_t seed) {
  if (gpu_is_tested()) return load_cuda_library().machine({.devices = devices, .virtual_devices = true});
  return std::make_unique<HostMachine>(HostMachine::Settings{.seed = seed});
}

class MachineCollectivesConformance : public testing::TestWithParam<std::tuple<int, ConformanceCase>> {};

TEST_P(MachineCollectivesConformance, Holds) {
  const auto& [members, conformance] = GetParam();
  const std::uint64_t seed = 20240000 + static_cast<std::uint64_t>(members);
  const std::unique_ptr<Machine> machine = tested_machine(members, seed);
  const std::unique_ptr<Collectives> collectives = make_machine_collectives(*machine);
  MachineWorld world(*machine, *collectives, members);
  EXPECT_NO_THROW(in_threads(
      members, [&, &conformance = conformance](int device) { conformance.run(*world.member(device), seed); },
      [&](const std::string& reason) { world.abort(reason); }));
}

INSTANTIATE_TEST_SUITE_P(Devices, MachineCollectivesConformance,
                         testing::Combine(testing::Values(1, 2, 3, 8),
                                          testing::ValuesIn(conformance_cases().begin(),
                                                            conformance_cases().end())),
                         [](const auto& tested) {
                           return std::get<1>(tested.param).name + std::to_string(std::get<0>(tested.param));
                         });

TEST(MachineCollectives, RefuseWhatOneGpuCanNotDo) {
  HostMachine machine;
  const std::unique_ptr<Collectives> collectives = make_machine_collectives(machine);
  const std::unique_ptr<Stream> stream = machine.make_stream(DeviceId(0), StreamUse::Compute);
  std::vector<DeviceId> group;
  std::vector<CollectiveMember> members;
  for (int d = 0; d < 65; ++d) {
    group.emplace_back(d);
    members.push_back({d, stream.get(), nullptr, nullptr});
  }
  const CollectiveCall call{Collective::AllReduce, ReduceOperation::Sum, DataType::Float32, group, 4};
  EXPECT_EQ(refusal<DeviceError>([&] { collectives->run(call, members); }),
            "a collective has 65 members; the devices of one GPU can do 64");
}

}  // namespace
}  // namespace pipesim::gpu
