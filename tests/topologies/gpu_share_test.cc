#include "topologies/gpu_share.h"

#include <gmock/gmock.h>

#include "tests/refusal.h"
#include "topologies/device_kinds.h"
#include "topologies/files/topology_json.h"
#include "topologies/presets/presets.h"

namespace pipesim {
namespace {

using testing::HasSubstr;

const DeviceKind& h200() { return *find_built_in_device_kind("H200"); }
constexpr GpuShare kEighth{8, 16, 132};

TEST(GpuShare, NamesTheKindOfItsDevices) {
  EXPECT_EQ(name_of_share("H200", kEighth), "H200/8 (16 of 132 SMs)");
  EXPECT_EQ(name_of_share("H200/8 (16 of 132 SMs)", {16, 8, 132}), "H200/16 (8 of 132 SMs)");
  EXPECT_EQ(name_of_share("H200/8 (16 of 132 SMs)", {1, 132, 132}), "H200");
  for (const char* name : {"H200", "H200/8", "/8 (16 of 132 SMs)", "a (16 of 132 SMs)", "a/8 (16 of SMs)",
                           "a/ (1 of 2 SMs)", "a/8 (16 of 132 SMs) ", " SMs)", ""})
    EXPECT_EQ(name_of_share(name, {1, 132, 132}), name);
}

TEST(GpuShare, CallsDevicesOfATopologySo) {
  EXPECT_TRUE(names_share("H200/8 (16 of 132 SMs)"));
  EXPECT_FALSE(names_share("H200"));
  const Topology whole = make_topology("hgx-h200").with_memory_margin(MemoryMargin::parse("10%"));
  const Topology parts = with_share(whole, kEighth);
  EXPECT_EQ(parts.kind(DeviceId(3)).name, "H200/8 (16 of 132 SMs)");
  EXPECT_EQ(parts.kind(DeviceId(3)).peak, whole.kind(DeviceId(3)).peak) << "only the name tells";
  EXPECT_EQ(parts.usable_memory(DeviceId(0)), whole.usable_memory(DeviceId(0)));
  EXPECT_EQ(with_share(parts, kEighth), parts);
  EXPECT_EQ(with_share(parts, {1, 132, 132}), whole);
}

// A file may have a GPU beside its parts, or different parts; a GPU is divided in one way only.
TEST(GpuShare, JoinsKindsThatBecomeOne) {
  TopologyParts two = make_topology("levels:3@10GB/s").parts();
  DeviceKind whole = h200(), half = whole;
  half.name = "H200/2 (66 of 132 SMs)";
  two.kinds = {whole, half};
  two.devices[1].kind = two.devices[2].kind = 1;
  const Topology joined = with_share(Topology(two), kEighth);
  ASSERT_EQ(joined.parts().kinds.size(), 1U);
  EXPECT_EQ(joined.kind(DeviceId(0)).name, "H200/8 (16 of 132 SMs)");
  EXPECT_EQ(joined.kind(DeviceId(2)), joined.kind(DeviceId(0)));
  two.kinds[1].memory = Bytes(whole.memory.value / 2);
  EXPECT_EQ(
      refusal([&] { with_share(Topology(two), kEighth); }),
      "topology \"levels:3@10GB/s\": its device kind \"H200/2 (66 of 132 SMs)\" and one before it would "
      "both be \"H200/8 (16 of 132 SMs)\", but differ; all devices here are alike: take a topology with "
      "one of these kinds");
}

// 16 of 132 multiprocessors compute; an eighth of the memory is theirs.
TEST(GpuShare, HasItsPartOfEveryFigure) {
  DeviceKind whole = h200();
  whole.memory = Bytes(150'111'911'936);
  const DeviceKind part = share_of(whole, kEighth);
  EXPECT_EQ(part.name, "H200/8 (16 of 132 SMs)");
  EXPECT_DOUBLE_EQ(part.peak.at(DataType::BFloat16).value, 989e12 * 16 / 132);
  EXPECT_DOUBLE_EQ(part.peak.at(DataType::Float32).value, 67e12 * 16 / 132);
  EXPECT_EQ(part.memory.value, 18'763'988'992);
  EXPECT_DOUBLE_EQ(part.memory_bandwidth.value, 600e9);
  EXPECT_EQ(part.memory_efficiency, whole.memory_efficiency);
  EXPECT_EQ(part.launch_overhead, whole.launch_overhead);
  EXPECT_THAT(part.source, testing::StartsWith("datasheet: "));
  EXPECT_THAT(part.source, HasSubstr("; derived: peak rates are 16 of 132 multiprocessors'"));
}

TEST(GpuShare, MakesDevicesThatCopyOverOneBus) {
  const Topology t = divided_gpu("here", h200(), kEighth);
  ASSERT_EQ(t.num_devices(), 8U);
  EXPECT_EQ(t.num_nodes(), 1U);
  EXPECT_EQ(t.num_lanes(), 8U + 1U);
  EXPECT_EQ(t.device(DeviceId(7)).name, "part7");
  const Route one = t.route(DeviceId(0), DeviceId(1)), other = t.route(DeviceId(6), DeviceId(3));
  EXPECT_EQ(one, other) << "all copies hold the same lane";
  ASSERT_EQ(one.lanes.size(), 1U);
  EXPECT_EQ(t.lane_name(one.lanes[0]), "memory");
  EXPECT_DOUBLE_EQ(one.bandwidth.value, 4800e9 * 0.8 / 2);
  EXPECT_DOUBLE_EQ(t.lane_bandwidth(one.lanes[0]).value, one.bandwidth.value);
  EXPECT_DOUBLE_EQ(one.latency.value, 2.7e-6);
  EXPECT_THAT(t.parts().source,
              HasSubstr("share half the achievable bandwidth of its memory (4.8 TB/s x 0.8"));
  EXPECT_EQ(parse_topology(to_json(t), "here.json"), t);
}

TEST(GpuShare, RefusesWhatNoGpuIsDividedInto) {
  const auto said = [](const GpuShare& share) {
    return refusal([&] { divided_gpu("here", h200(), share); });
  };
  EXPECT_EQ(
      said({1, 132, 132}),
      "topology \"here\": found 1 parts of 132 multiprocessors, allowed: from 2 parts on, of as many as "
      "a GPU has, which are 132");
  EXPECT_THAT(said({8, 17, 132}), HasSubstr("found 8 parts of 17 multiprocessors"));
  EXPECT_THAT(said({8, 0, 132}), HasSubstr("found 8 parts of 0 multiprocessors"));
}

}  // namespace
}  // namespace pipesim
