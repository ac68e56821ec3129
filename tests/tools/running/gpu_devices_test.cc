#include "tools/running/gpu_devices.h"

#include <gtest/gtest.h>

namespace pipesim {
namespace {

TEST(GpuDevices, OneRankForEachGpu) {
  EXPECT_EQ(shared_gpu({"a 1 0000:18:00.0 0000:2a:00.0", "a 1 0000:3a:00.0", "b 2 0000:18:00.0"}), "");
  EXPECT_EQ(shared_gpu({"a 1", "a 1"}), "");  // without GPUs
}

TEST(GpuDevices, HostsOfOneNameAreNotOneHost) {
  EXPECT_EQ(shared_gpu({"a 1 0000:18:00.0", "a 2 0000:18:00.0"}), "");
}

TEST(GpuDevices, NamesTheRanksThatShareAGpu) {
  EXPECT_EQ(shared_gpu({"b 2 0000:18:00.0", "a 1 0000:18:00.0", "a 1 0000:2a:00.0 0000:18:00.0"}),
            "ranks 1 and 2 are both on GPU 0000:18:00.0 of host a");
}

}  // namespace
}  // namespace pipesim
