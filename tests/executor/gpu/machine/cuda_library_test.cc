#include "executor/gpu/machine/cuda_library.h"

#include <gmock/gmock.h>

#include <string>

#include "executor/gpu/machine/machine.h"
#include "tests/refusal.h"

namespace pipesim::gpu {
namespace {

using testing::HasSubstr;

// Null, with the reason, where it is not built.
const CudaLibrary* library_if_built(std::string& why) {
  try {
    return &load_cuda_library();
  } catch (const DeviceError& error) {
    why = error.what();
    return nullptr;
  }
}

std::string machine_refusal(const CudaLibrary& library, const MachineSetting& setting) {
  return refusal<InputError>([&] { (void)library.machine(setting); });
}

// The error is thrown inside the library and caught here.
TEST(CudaLibrary, SaysWhatIsMissingWhereThereIsNoGpu) {
  std::string why;
  const CudaLibrary* library = library_if_built(why);
  if (library == nullptr) GTEST_SKIP() << why;
  const std::string none = library->inventory().no_gpus;
  if (none.empty()) GTEST_SKIP() << "this machine has a GPU";
  EXPECT_EQ(refusal<DeviceError>([&] { (void)library->machine({}); }), "no GPU to run on: " + none);
}

TEST(GpuCudaLibrary, RefusesMoreDevicesThanThereAre) {
  std::string why;
  const CudaLibrary* library = library_if_built(why);
  if (library == nullptr) GTEST_SKIP() << why;
  const GpuInventory found = library->inventory();
  if (found.gpus.empty()) GTEST_SKIP() << found.no_gpus;
  EXPECT_THAT(
      machine_refusal(*library, {.devices = 1000}),
      HasSubstr("the plan needs 1000 devices and this machine has " + std::to_string(found.gpus.size())));
  EXPECT_THAT(machine_refusal(*library, {.devices = 1000}), HasSubstr("; add --virtual-devices to divide "));
  EXPECT_THAT(machine_refusal(*library, {.gpu = 1000}), HasSubstr("there is no gpu1000: this machine has "));
  EXPECT_THAT(machine_refusal(*library, {.devices = 1000, .virtual_devices = true}),
              HasSubstr("multiprocessors, which can be divided into at most "));
  const auto two = library->machine({.devices = 2, .virtual_devices = true});
  EXPECT_THAT(two->name(), HasSubstr(found.gpus.front().name + " as 2 devices of "));
}

}  // namespace
}  // namespace pipesim::gpu
