#include "executor/gpu/machine/requirements.h"

#include <gmock/gmock.h>

#include <string>
#include <vector>

#include "models/zoo/zoo.h"
#include "tests/executor/gpu/host_machine.h"
#include "tests/refusal.h"

namespace pipesim::gpu {
namespace {

constexpr std::int64_t kGigabyte = 1'000'000'000;

MemoryDemand demand(int device, double predicted, double asked) {
  return {DeviceId(device), Bytes(static_cast<std::int64_t>(predicted * kGigabyte)),
          Bytes(static_cast<std::int64_t>(asked * kGigabyte))};
}

class SharedMachine : public HostMachine {
 public:
  using HostMachine::HostMachine;
  [[nodiscard]] std::string name() const override { return "Some GPU as 4 devices of 8 multiprocessors"; }
  [[nodiscard]] bool shares_memory() const override { return true; }
};

TEST(GpuRequirements, AreWhatEachDeviceHasFree) {
  const HostMachine machine({.memory = 8 * kGigabyte});
  const std::vector<MemoryDemand> fits{demand(0, 7, 8), demand(1, 9, 7.5)};
  EXPECT_NO_THROW(require_memory(fits, machine));
  EXPECT_NO_THROW(require_memory({}, machine));
  const std::vector<MemoryDemand> demands{demand(0, 7, 8), demand(2, 7.5, 8.5), demand(3, 11, 12)};
  EXPECT_EQ(refusal([&] { require_memory(demands, machine); }),
            "out of memory on host: device 2 is predicted to need 7.5 GB and asks for 8.5 GB, 8 GB are free; "
            "device 3 is predicted to need 11 GB and asks for 12 GB, 8 GB are free; take a smaller batch, or "
            "a plan that splits weights over more devices");
}

TEST(GpuRequirements, AreWhatDevicesShare) {
  const SharedMachine machine({.memory = 8 * kGigabyte});
  const std::vector<MemoryDemand> fits{demand(0, 4, 4), demand(1, 3, 4)};
  EXPECT_NO_THROW(require_memory(fits, machine));
  const std::vector<MemoryDemand> demands{demand(0, 4, 5), demand(1, 0, 0), demand(2, 3, 3.5)};
  EXPECT_EQ(refusal([&] { require_memory(demands, machine); }),
            "out of memory, which Some GPU as 4 devices of 8 multiprocessors share: 8 GB are free, they are "
            "predicted to need 7 GB together and ask for 8.5 GB (device 0 is predicted to need 4 GB and asks "
            "for 5 GB; device 2 is predicted to need 3 GB and asks for 3.5 GB); take a smaller batch, or a "
            "plan that splits weights over more devices");
  std::vector<MemoryDemand> many;
  for (int d = 0; d < 16; ++d) many.push_back(demand(d, 1, 1));
  EXPECT_THAT(
      refusal([&] { require_memory(many, machine); }),
      testing::HasSubstr("device 7 is predicted to need 1 GB and asks for 1 GB; and 8 more devices);"));
}

class OldMachine : public HostMachine {
 public:
  [[nodiscard]] std::string why_not(DataType type) const override {
    return type == DataType::BFloat16
               ? "gpu0 (Tesla T4) has no bfloat16: its compute capability is 7.5, 8.0 is needed"
               : "";
  }
};

TEST(GpuRequirements, NameWhoNeedsAType) {
  const OldMachine machine;
  EXPECT_NO_THROW(require_types(make_zoo_model("mlp:batch=4,layers=2,hidden=8"), machine));
  EXPECT_EQ(refusal([&] {
              require_types(make_zoo_model("gpt:batch=2,layers=1,hidden=8,heads=2,vocab=8,sequence=4,"
                                           "positions=4,dtype=bfloat16"),
                            machine);
            }),
            "operator \"word_embedding\" reads \"word_embedding.w\" in bfloat16: gpu0 (Tesla T4) has no "
            "bfloat16: its compute capability is 7.5, 8.0 is needed");
}

}  // namespace
}  // namespace pipesim::gpu
