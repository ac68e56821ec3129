#include "topologies/topology.h"
#include <gtest/gtest.h>
#include "topologies/presets.h"
TEST(Topology, Smoke) { EXPECT_EQ(pipesim::make_topology("p100-4x4").num_devices(), 16u); }
