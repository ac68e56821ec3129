#include "costmodel/constants/cluster_constants.h"

#include <gmock/gmock.h>

#include <cmath>

#include "costmodel/calibration.h"
#include "tests/refusal.h"
#include "topologies/presets/presets.h"

namespace pipesim {
namespace {

using testing::HasSubstr;

ClusterConstants constants_of(std::vector<Constant> list, const std::string& device = "A100-80GB") {
  ClusterConstants constants;
  constants.device = device;
  constants.covariance.assign(list.size() * list.size(), 0.0);
  for (std::size_t i = 0; i < list.size(); ++i) constants.covariance[i * list.size() + i] = 0.01;
  constants.constants = std::move(list);
  constants.discrepancy = 0.05;
  constants.source = {"runs.csv", 12, "2026-01-01T00:00:00Z"};
  return constants;
}

ClusterConstants one(ConstantKind kind, double factor, const std::string& runtime = "") {
  return constants_of({{kind, runtime, std::log(factor)}});
}

Topology two_nodes() { return make_topology("dgx-a100:2"); }

TEST(ClusterConstants, MultiplyOneFigureOfADeviceEach) {
  const Topology before = two_nodes();
  const DeviceKind& old = before.kind(DeviceId(0));
  const auto changed = [&](ConstantKind kind, double factor) {
    return with_constants(before, one(kind, factor)).kind(DeviceId(0));
  };
  DeviceKind expected = old;
  expected.products.sustained = old.products.sustained * 0.9;
  EXPECT_EQ(changed(ConstantKind::Products, 0.9), expected);
  expected = old;
  expected.memory_efficiency = old.memory_efficiency * 0.9;
  EXPECT_EQ(changed(ConstantKind::Memory, 0.9), expected);
  expected = old;
  ASSERT_TRUE(old.fused_attention);
  for (auto* attention : {&expected.fused_attention, &expected.flash_attention_2}) {
    if (!*attention) continue;
    (*attention)->forward *= 0.9;
    (*attention)->backward *= 0.9;
  }
  EXPECT_EQ(changed(ConstantKind::Attention, 0.9), expected);
  for (const ConstantKind kind : {ConstantKind::Host, ConstantKind::Latency, ConstantKind::Update})
    EXPECT_EQ(changed(kind, 0.9), old) << name_of(kind);
}

TEST(ClusterConstants, LeaveSharesOfAPeakAtMostOne) {
  const DeviceKind kind =
      with_constants(two_nodes(),
                     constants_of({{ConstantKind::Products, "", 2}, {ConstantKind::Memory, "", 2}}))
          .kind(DeviceId(0));
  EXPECT_EQ(kind.products.sustained, 1);
  EXPECT_EQ(kind.memory_efficiency, 1);
  for (const EfficiencyPoint& point : kind.products.efficiency) EXPECT_LE(point.fraction, 1);
}

// What runs sustain is at its bound, so short runs are faster, too.
TEST(ClusterConstants, RaiseTheRateOfShortRunsBeyondWhatIsSustained) {
  const DeviceKind old = two_nodes().kind(DeviceId(0));
  const double factor = 1.1 / old.products.sustained;
  const DeviceKind kind = with_constants(two_nodes(), one(ConstantKind::Products, factor)).kind(DeviceId(0));
  EXPECT_EQ(kind.products.sustained, 1);
  ASSERT_FALSE(kind.products.efficiency.empty());
  for (std::size_t i = 0; i < kind.products.efficiency.size(); ++i)
    EXPECT_NEAR(kind.products.efficiency[i].fraction,
                std::min(1.0, old.products.efficiency[i].fraction * 1.1), 1e-12);
}

TEST(ClusterConstants, TellLinksInANodeFromThoseThatLeaveIt) {
  const Topology before = two_nodes(), node = with_constants(before, one(ConstantKind::NodeLinks, 0.5)),
                 network = with_constants(before, one(ConstantKind::NetworkLinks, 0.5));
  std::size_t inside = 0, outside = 0;
  for (std::size_t i = 0; i < before.parts().links.size(); ++i) {
    const double bandwidth = before.parts().links[i].bandwidth.value,
                 in_node = node.parts().links[i].bandwidth.value,
                 in_network = network.parts().links[i].bandwidth.value;
    EXPECT_NEAR(in_node + in_network, 1.5 * bandwidth, 1e-3) << i;
    ++(in_node < in_network ? inside : outside);
  }
  EXPECT_GT(inside, 0U);
  EXPECT_GT(outside, 0U);
  const std::vector<DeviceId> apart{DeviceId(0), DeviceId(8)}, together{DeviceId(0), DeviceId(1)};
  EXPECT_EQ(network.route(together[0], together[1]), before.route(together[0], together[1]));
  EXPECT_LT(network.route(apart[0], apart[1]).bandwidth.value,
            before.route(apart[0], apart[1]).bandwidth.value);
}

TEST(ClusterConstants, MultiplyTheHostOfTheirRuntimeOnly) {
  const ClusterConstants constants =
      constants_of({{ConstantKind::Host, "megatron", std::log(2)}, {ConstantKind::Update, "", std::log(3)}});
  const Runtime megatron = parse_runtime("megatron:module=50us"), nanotron = parse_runtime("nanotron");
  const Runtime changed = with_constants(megatron, constants), other = with_constants(nanotron, constants);
  EXPECT_NEAR(changed.host.module.value, 100e-6, 1e-12);
  EXPECT_NEAR(changed.host.step.value, 2 * megatron.host.step.value, 1e-12);
  EXPECT_EQ(other.host, nanotron.host);
  EXPECT_NEAR(changed.update, 3 * megatron.update, 1e-12);
}

TEST(ClusterConstants, AreInTheFiguresOfACostModel) {
  const Topology topology = two_nodes();
  Calibration calibration;
  calibration.constants =
      constants_of({{ConstantKind::Latency, "", std::log(2)}, {ConstantKind::Host, "megatron", std::log(2)}});
  const CostModel plain(topology, nullptr, parse_runtime("megatron")),
      fitted(topology, &calibration, parse_runtime("megatron"));
  EXPECT_FALSE(fitted.calibrated()) << "no duration was measured";
  const std::vector<DeviceId> group{DeviceId(0), DeviceId(1), DeviceId(2)};
  const double before = plain.collective_time(Collective::AllReduce, group, Bytes(1)).duration.value,
               after = fitted.collective_time(Collective::AllReduce, group, Bytes(1)).duration.value;
  EXPECT_NEAR(after / before, 2, 1e-2) << "a byte takes nothing but latency";
  EXPECT_NEAR(fitted.runtime().host.kernel.value, 2 * plain.runtime().host.kernel.value, 1e-12);
}

TEST(ClusterConstants, OfAnotherKindOfDeviceAreRefused) {
  EXPECT_THAT(refusal([] { with_constants(make_topology("dgx-h100:1"), one(ConstantKind::Memory, 1.1)); }),
              HasSubstr("the constants are of A100-80GB, and topology"));
}

TEST(ClusterConstants, ReadBackFromTheirFile) {
  ClusterConstants constants =
      constants_of({{ConstantKind::Products, "", 0.125}, {ConstantKind::Host, "torch-eager", -0.5}});
  constants.covariance = {0.01, 0.002, 0.002, 0.04};
  const ClusterConstants read = parse_constants(to_json(constants), "x.json");
  ASSERT_EQ(read.constants.size(), 2U);
  EXPECT_NEAR(read.constants[1].log, -0.5, 1e-12);
  EXPECT_EQ(read.constants[1].runtime, "torch-eager");
  EXPECT_EQ(read.covariance, constants.covariance);
  EXPECT_EQ(read.device, constants.device);
  EXPECT_EQ(read.discrepancy, constants.discrepancy);
  EXPECT_EQ(read.source, constants.source);
}

TEST(ClusterConstants, SayWhatIsWrongWithAFile) {
  const std::string good = to_json(one(ConstantKind::Memory, 1.25));
  const auto with = [&](const std::string& old, const std::string& by) {
    std::string text = good;
    const std::size_t at = text.find(old);
    EXPECT_NE(at, std::string::npos) << old;
    text.replace(at, old.size(), by);
    return refusal([&] { parse_constants(text, "x.json"); });
  };
  EXPECT_EQ(refusal([&] { parse_constants(good, "x.json"); }), "accepted");
  EXPECT_THAT(with("\"memory\"", "\"memroy\""), HasSubstr("x.json: /constants/0/constant: found \"memroy\""));
  EXPECT_THAT(with("\"memory\"", "\"host\""), HasSubstr("allowed: \"runtime\" with \"host\""));
  EXPECT_THAT(with("\"factor\": 1.25", "\"factor\": -1"), HasSubstr("x.json: /constants/0/factor"));
  EXPECT_THAT(with("0.01", "-0.01"), HasSubstr("no covariance"));
  EXPECT_THAT(with("0.01", "0.01, 0.01"), HasSubstr("allowed: 1 of 1"));
  EXPECT_THAT(with("\"discrepancy\": 0.05", "\"discrepancy\": -1"), HasSubstr("x.json: /discrepancy"));
  EXPECT_THAT(with("\"pipesim_constants\"", "\"pipesim_plan\""),
              HasSubstr("this is a plan, not a file of constants"));
}

TEST(PredictionInterval, HasTheVarianceOfConstantsAndOfWhatTheyDoNotExplain) {
  ClusterConstants constants = constants_of({{ConstantKind::Products, "", 0}, {ConstantKind::Memory, "", 0}});
  constants.covariance = {0.01, 0.005, 0.005, 0.04};
  constants.discrepancy = 0.1;
  const std::vector<double> slopes{-0.5, -0.25};
  const double variance = 0.01 + 0.25 * 0.01 + 2 * 0.125 * 0.005 + 0.0625 * 0.04;
  const double deviation = log_deviation(constants, slopes);
  EXPECT_NEAR(deviation, std::sqrt(variance), 1e-12);
  const PredictionInterval interval = interval_around(Seconds(2), deviation);
  EXPECT_NEAR(interval.high.value / 2, std::exp(1.6449 * deviation), 1e-9);
  EXPECT_NEAR(interval.low.value * interval.high.value, 4, 1e-9);
}

}  // namespace
}  // namespace pipesim
