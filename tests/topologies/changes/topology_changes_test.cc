#include "topologies/changes/topology_changes.h"

#include <gmock/gmock.h>

#include <algorithm>

#include "sim/base/errors.h"
#include "topologies/changes/link_places.h"
#include "topologies/presets/presets.h"

namespace pipesim {
namespace {

using testing::AllOf;
using testing::HasSubstr;

TopologyParts changed_parts(const std::string& topology, const std::string& path, const std::string& value) {
  TopologyParts parts = make_topology(topology).parts();
  change_topology(parts, path, value);
  return parts;
}

std::string refused_change(const std::string& text) {
  try {
    (void)make_topology(text);
  } catch (const InputError& error) {
    return error.what();
  }
  return "accepted";
}

TEST(TopologyChanges, LinksBetweenNodesGetTheBandwidthOfTheNarrowest) {
  const TopologyParts before = make_topology("dgx-h100:2").parts();
  for (const std::string value : {"25Gb/s", "800 Gb/s", "x2"}) {
    const TopologyParts after = changed_parts("dgx-h100:2", "inter_node.bandwidth", value);
    const LinkPlaces places(before);
    const double wanted = value == "x2" ? 96e9 : value == "25Gb/s" ? 3.125e9 : 100e9;
    ASSERT_EQ(places.of(LinkPlace::BetweenNodes).size(), 16U);
    ASSERT_EQ(places.of(LinkPlace::ToNic).size(), 16U);
    for (const std::size_t l : places.of(LinkPlace::BetweenNodes))
      EXPECT_DOUBLE_EQ(after.links[l].bandwidth.value, wanted) << value;
    // The way to a NIC is never narrower than the network only because the network became wider.
    for (const std::size_t l : places.of(LinkPlace::ToNic))
      EXPECT_DOUBLE_EQ(after.links[l].bandwidth.value, std::max(48e9, wanted)) << value;
    for (const std::size_t l : places.of(LinkPlace::InsideNode)) EXPECT_EQ(after.links[l], before.links[l]);
  }
}

// A bus that was the bottleneck stays one.
TEST(TopologyChanges, NarrowWaysToNicsStay) {
  TopologyParts parts = make_topology("dgx-h100:2").parts();
  const LinkPlaces places(parts);
  const std::size_t bus = places.of(LinkPlace::ToNic).front();
  parts.links[bus].bandwidth = BytesPerSecond(10e9);
  change_topology(parts, "inter_node.bandwidth", "x3");
  EXPECT_DOUBLE_EQ(parts.links[bus].bandwidth.value, 10e9);
}

TEST(TopologyChanges, LatenciesKeepTheirProportions) {
  const TopologyParts after = changed_parts("dgx-h100:2", "inter_node.latency", "2.7us");
  const LinkPlaces places(after);
  for (const std::size_t l : places.of(LinkPlace::BetweenNodes))
    EXPECT_DOUBLE_EQ(after.links[l].latency.value, 2.7e-6);
  for (const std::size_t l : places.of(LinkPlace::ToNic))
    EXPECT_DOUBLE_EQ(after.links[l].latency.value, 0.5e-6);
}

TEST(TopologyChanges, DevicesBecomeOthers) {
  EXPECT_EQ(make_topology("dgx-h100:2+device=a100").kind(DeviceId(9)).name, "A100-80GB");
  EXPECT_EQ(make_topology("dgx-h100:2+device=A100-40GB").kind(DeviceId(0)).name, "A100-40GB");
  const DeviceKind before = make_topology("dgx-h100").kind(DeviceId(0));
  const Topology less =
      make_topology("dgx-h100+device.memory=40GB+device.rate=x2+device.memory_bandwidth=1TB/s");
  const DeviceKind& after = less.kind(DeviceId(0));
  EXPECT_EQ(after.memory, Bytes(40'000'000'000));
  EXPECT_EQ(after.memory_overhead.installed.value, before.memory_overhead.installed.value / 2);
  EXPECT_DOUBLE_EQ(after.peak.at(DataType::BFloat16).value, 2 * before.peak.at(DataType::BFloat16).value);
  EXPECT_DOUBLE_EQ(after.memory_bandwidth.value, 1e12);
  EXPECT_DOUBLE_EQ(make_topology("dgx-h100+device.price=2.5").parts().price_per_hour, 2.5);
}

TEST(TopologyChanges, OneDeviceIsSlower) {
  const Topology slow = make_topology("dgx-h100:2+slow:node1.gpu3=1.5");
  const DeviceKind whole = make_topology("dgx-h100").kind(DeviceId(0));
  for (std::size_t d = 0; d < slow.num_devices(); ++d) {
    const double factor = d == 11 ? 1.5 : 1;
    EXPECT_DOUBLE_EQ(slow.kind(DeviceId(d)).peak.at(DataType::BFloat16).value * factor,
                     whole.peak.at(DataType::BFloat16).value);
    EXPECT_DOUBLE_EQ(slow.kind(DeviceId(d)).memory_bandwidth.value * factor, whole.memory_bandwidth.value);
  }
  EXPECT_EQ(make_topology("dgx-h100+slow:gpu3=1").parts().kinds, make_topology("dgx-h100").parts().kinds);
}

TEST(TopologyChanges, OneLinkIsSlowerOrGone) {
  const TopologyParts whole = make_topology("p100-4x4:1").parts();
  const TopologyParts slow = changed_parts("p100-4x4:1", "slow:gpu0-gpu1", "2");
  const TopologyParts gone = changed_parts("p100-4x4:1", "remove:gpu1-gpu0", "yes");
  EXPECT_EQ(gone.links.size() + 1, whole.links.size());
  int slower = 0;
  for (std::size_t l = 0; l < whole.links.size(); ++l)
    slower += slow.links[l].bandwidth.value * 2 == whole.links[l].bandwidth.value ? 1 : 0;
  EXPECT_EQ(slower, 1);
  EXPECT_EQ(changed_parts("p100-4x4:1", "remove:gpu1-gpu0", "no"), whole);
}

TEST(TopologyChanges, WithoutADeviceTheOthersKeepTheirLinks) {
  const Topology whole = make_topology("dgx-h100:2"),
                 less = make_topology("dgx-h100:2+remove:node0.gpu2=yes");
  ASSERT_EQ(less.num_devices(), 15U);
  EXPECT_FALSE(less.find_device("node0.gpu2").has_value());
  const auto between = [](const Topology& t, const char* a, const char* b) {
    return t.route(t.device_named(a), t.device_named(b));
  };
  for (const char* other : {"node0.gpu3", "node1.gpu7"})
    EXPECT_EQ(between(less, "node0.gpu1", other).bandwidth, between(whole, "node0.gpu1", other).bandwidth);
}

TEST(TopologyChanges, MoreNicsAreMoreBandwidth) {
  const auto narrowest = [](const char* text) {
    return LinkPlaces(make_topology(text).parts()).narrowest(LinkPlace::BetweenNodes).value;
  };
  EXPECT_DOUBLE_EQ(narrowest("roce-a100:2+inter_node.nics=8"), 2 * narrowest("roce-a100:2"));
  EXPECT_DOUBLE_EQ(narrowest("roce-a100:2+inter_node.nics=x0.5"), narrowest("roce-a100:2") / 2);
}

TEST(TopologyChanges, ApplyInOrder) {
  EXPECT_EQ(make_topology("dgx-h100+device.rate=x2+device=a100").kind(DeviceId(0)),
            make_topology("dgx-h100+device=a100").kind(DeviceId(0)));
  // x0.5 halves the network alone: what was widened for it stays.
  const TopologyParts twice =
      make_topology("dgx-h100:2+inter_node.bandwidth=x2+inter_node.bandwidth=x0.5").parts();
  const LinkPlaces places(twice);
  EXPECT_DOUBLE_EQ(places.narrowest(LinkPlace::BetweenNodes).value, 48e9);
  EXPECT_DOUBLE_EQ(places.narrowest(LinkPlace::ToNic).value, 96e9);
}

TEST(TopologyChanges, EveryListedFigureCanBeChanged) {
  for (const char* text :
       {"dgx-h100:2", "p100-4x4", "levels:4@10GB/s,2@1.25GB/s", "cpu:2", "dgx-a100+dgx-h100"}) {
    const TopologyParts whole = make_topology(text).parts();
    for (const ChangeableFigure& figure : changeable_figures(whole)) {
      if (figure.path.find(':') != std::string::npos || figure.path == "device") continue;
      TopologyParts parts = whole;
      const bool none = figure.path == "device.price" || figure.path.ends_with(".latency");  // may be 0
      change_topology(parts, figure.path, figure.path == "device.price" ? "3" : none ? "7us" : "x2");
      EXPECT_NE(parts, whole) << text << " " << figure.path;
      EXPECT_NO_THROW((void)Topology(parts)) << text << " " << figure.path;
    }
  }
}

TEST(TopologyChanges, SayWhatIsAllowed) {
  EXPECT_THAT(refused_change("dgx-h100:2+inter_node.bandwith=1GB/s"),
              HasSubstr("did you mean \"inter_node.bandwidth\"?"));
  EXPECT_THAT(refused_change("dgx-h100+inter_node.bandwidth=1GB/s"),
              HasSubstr("has no \"inter_node.bandwidth\""));
  EXPECT_THAT(refused_change("dgx-h100:2+inter_node.bandwidth=25"),
              AllOf(HasSubstr("the unit is missing"), HasSubstr("x1.5")));
  EXPECT_THAT(refused_change("dgx-h100:2+inter_node.bandwidth=x0"), HasSubstr("inter_node.bandwidth=x0"));
  EXPECT_THAT(refused_change("dgx-h100+device=h1000"), HasSubstr("allowed: K80"));
  EXPECT_THAT(refused_change("dgx-h100+slow:gpu9=2"), HasSubstr("has no \"gpu9\""));
  EXPECT_THAT(refused_change("dgx-h100+slow:gpu1=0.5"), HasSubstr("a number from 1 on"));
  EXPECT_THAT(refused_change("dgx-h100+remove:gpu1=maybe"), HasSubstr("allowed: yes, no"));
  EXPECT_THAT(refused_change("dgx-h100+device.rate=2"), HasSubstr("a factor, such as x1.5"));
  EXPECT_THAT(refused_change("+device.rate=x2"), HasSubstr("unknown topology"));
}

TEST(JoinedTopologies, HaveTheNodesOfEachOnOneNetwork) {
  const Topology mixed = make_topology("dgx-a100+dgx-h100:2,gpus=4");
  ASSERT_EQ(mixed.num_nodes(), 3U);
  ASSERT_EQ(mixed.num_devices(), 16U);
  EXPECT_EQ(mixed.kind(mixed.device_named("node0.gpu7")).name, "A100-80GB");
  EXPECT_EQ(mixed.kind(mixed.device_named("node2.gpu3")).name, "H100-SXM5");
  // The route is as wide as the narrower NIC.
  const Route route = mixed.route(mixed.device_named("node0.gpu0"), mixed.device_named("node1.gpu0"));
  EXPECT_DOUBLE_EQ(route.bandwidth.value, 24e9);
  EXPECT_THAT(refused_change("dgx-a100+levels:4@1GB/s"), HasSubstr("found \"levels:4@1GB/s\" among nodes"));
  EXPECT_THAT(refused_change("dgx-a100+dgx-h100:4,network=rail"), HasSubstr("have one switch"));
}

}  // namespace
}  // namespace pipesim
