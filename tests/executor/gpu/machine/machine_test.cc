#include "executor/gpu/machine/machine.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "tests/executor/gpu/cuda_for_tests.h"
#include "tests/executor/gpu/host_machine.h"
#include "tests/executor/gpu/machine_conformance.h"

namespace pipesim::gpu {
namespace {

std::string check_name(const testing::TestParamInfo<MachineCheck>& info) { return info.param.name; }

class HostMachineConformance : public testing::TestWithParam<MachineCheck> {};
TEST_P(HostMachineConformance, Holds) {
  HostMachine machine;
  GetParam().run(machine, 2);
  EXPECT_EQ(machine.allocated(), 0);
}
INSTANTIATE_TEST_SUITE_P(Machine, HostMachineConformance, testing::ValuesIn(machine_checks()), check_name);

class GpuMachineConformance : public testing::TestWithParam<MachineCheck> {
 protected:
  static void check(const MachineSetting& setting) {
    std::string why;
    const std::unique_ptr<Machine> machine = cuda_machine(setting, why);
    if (machine == nullptr) GTEST_SKIP() << why;
    GetParam().run(*machine, setting.devices);
  }
};
TEST_P(GpuMachineConformance, Holds) { check({}); }
TEST_P(GpuMachineConformance, HoldsForVirtualDevices) { check({.devices = 2, .virtual_devices = true}); }
INSTANTIATE_TEST_SUITE_P(Machine, GpuMachineConformance, testing::ValuesIn(machine_checks()), check_name);

}  // namespace
}  // namespace pipesim::gpu
