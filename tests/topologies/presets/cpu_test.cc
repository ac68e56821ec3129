#include "topologies/presets/cpu.h"

#include <gmock/gmock.h>

#include "tests/refusal.h"
#include "topologies/presets/presets.h"

namespace pipesim {
namespace {

TEST(CpuTopology, HasDevicesThatDoNotOverlapTransfersWithCompute) {
  const Topology t = make_topology("cpu:4");
  EXPECT_EQ(t.num_devices(), 4U);
  EXPECT_EQ(t.num_nodes(), 1U);
  EXPECT_EQ(t.device(DeviceId(3)).name, "cpu3");
  EXPECT_FALSE(t.kind(DeviceId(0)).overlap);
  EXPECT_EQ(t.distance(DeviceId(0), DeviceId(3)), 1);
  EXPECT_EQ(make_topology("cpu"), make_topology("cpu:2"));
}

TEST(CpuTopology, RefusesNoDevices) {
  EXPECT_EQ(refusal<InputError>([] { make_topology("cpu:0"); }),
            "topology \"cpu:0\": found 0 devices, allowed 1 to 100000");
}

}  // namespace
}  // namespace pipesim
