#include "costmodel/calibration.h"

#include <gmock/gmock.h>

#include "models/graph_builder.h"
#include "tests/costmodel/samples.h"
#include "tests/refusal.h"
#include "topologies/gpu_share.h"

namespace pipesim {
namespace {

using enum DurationSource;

/// x[rows, 256] → 512 → 512.
OperatorGraph chain_of_linears(std::int64_t rows) {
  GraphBuilder builder("two", rows);
  const TensorId x = builder.data("x", {rows, 256});
  const TensorId h = builder.add("linear", "a", {x}, {{"out", std::int64_t{512}}});
  builder.add("linear", "b", {h}, {{"out", std::int64_t{512}}});
  return builder.build();
}

Calibration empty_calibration() {
  Calibration calibration;
  calibration.runs.push_back({this_host(), "2025-03-01T12:00:00Z", 0.01});
  return calibration;
}

// Forward of operator b at this many rows, as if it took `seconds`.
Measurement measured_rows(std::int64_t rows, double seconds, std::int32_t busy = 0) {
  const OperatorGraph graph = chain_of_linears(rows);
  const Operator& op = graph.operators()[1];
  Measurement m;
  m.key = operator_key(graph, op, Pass::Forward, whole_ranges(op), "plain", busy);
  m.work = shard_kernel(graph, op, Pass::Forward, whole_ranges(op)).work;
  m.seconds = {seconds};
  return m;
}

Estimate estimate_rows(const CostModel& costs, std::int64_t rows) {
  const OperatorGraph graph = chain_of_linears(rows);
  const Operator& op = graph.operators()[1];
  return costs.operator_estimate(graph, op, Pass::Forward, whole_ranges(op), DeviceId(0));
}

TEST(Calibration, KeysSayWhatToMeasure) {
  EXPECT_EQ(measured_rows(1024, 1).key.str(),
            "linear forward [1024, 512, 512] float32 on plain (activation=\"none\", bias=1, contract=1, "
            "transpose_weight=0)");
  EXPECT_EQ(update_key(Optimizer::Adam, 4096, DataType::Float16, "cpu", 3).str(),
            "adam update of 4096 float16 on cpu beside 3 busy neighbours");
  EXPECT_EQ(transfer_key(Collective::AllReduce, 4, Bytes(4096), DataType::Float32, "node").str(),
            "all-reduce of 4096 B among 4, float32, node");
}

TEST(Calibration, LinkClassesCountMembersOfNodes) {
  const Topology topology = switched({4, 4});
  EXPECT_EQ(link_class(topology, devices({1, 3})), "node");
  EXPECT_EQ(link_class(topology, devices({0, 4, 5, 6})), "nodes 3+1");
  EXPECT_EQ(link_class(divided_gpu("here", plain_kind(), {8, 16, 132}), devices({1, 3})),
            "node of plain/8 (16 of 132 SMs)");
  const Topology parts = with_share(topology, {8, 16, 132});
  EXPECT_EQ(link_class(parts, devices({1, 3})), "node of plain/8 (16 of 132 SMs)");
  EXPECT_EQ(link_class(parts, devices({0, 4, 5, 6})), "nodes 3+1 of plain/8 (16 of 132 SMs)");
}

TEST(Calibration, AKeyWithoutCleanSamplesIsAnError) {
  Calibration calibration = empty_calibration();
  Measurement m{update_key(Optimizer::Sgd, 64, DataType::Float32, "cpu"), {}, {}, 1};
  EXPECT_EQ(refusal([&] { calibration.add(m); }),
            "no clean samples of sgd update of 64 float32 on cpu, 1 was dropped");
  EXPECT_TRUE(calibration.keys.empty());
}

TEST(CalibratedCosts, TakeTheMedianOfWhatWasMeasured) {
  Calibration calibration = empty_calibration();
  Measurement m = measured_rows(1024, 5e-3);
  m.seconds = {4e-3, 5e-3, 90e-3};
  calibration.add(m);
  const Topology topology = switched({1});
  const Estimate e = estimate_rows(CostModel(topology, &calibration), 1024);
  EXPECT_EQ(e.time, Seconds(5e-3));
  EXPECT_EQ(e.source, Measured);
}

// Where all kernels take 3 · analytic^1.1, a few measurements give every size between them exactly.
TEST(CalibratedCosts, InterpolateAPowerLawExactly) {
  const Topology topology = switched({1});
  const CostModel analytic(topology);
  const auto law = [&](std::int64_t rows) {
    return 3 * std::pow(estimate_rows(analytic, rows).time.value, 1.1);
  };
  Calibration calibration = empty_calibration();
  for (const std::int64_t rows : {64, 1024, 16384}) calibration.add(measured_rows(rows, law(rows)));
  const CostModel costs(topology, &calibration);
  for (const std::int64_t rows : {80, 128, 1000, 5000}) {
    const Estimate e = estimate_rows(costs, rows);
    EXPECT_NEAR(e.time.value / law(rows), 1, 1e-9) << rows;
    EXPECT_EQ(e.source, Interpolated);
  }
  const Estimate beyond = estimate_rows(costs, 1 << 18);
  EXPECT_EQ(beyond.source, Extrapolated);
  EXPECT_NEAR(beyond.time / estimate_rows(analytic, 1 << 18).time,
              law(16384) / estimate_rows(analytic, 16384).time.value, 1e-9);
}

TEST(CalibratedCosts, FallBackOnTheAnalyticModel) {
  Calibration calibration = empty_calibration();
  calibration.add(measured_rows(1024, 5e-3));
  const Topology topology = switched({1});
  const CostModel costs(topology, &calibration), analytic(topology);
  const OperatorGraph graph = chain_of_linears(1024);
  const Operator& op = graph.operators()[1];
  const auto ranges = whole_ranges(op);
  const Estimate e = costs.operator_estimate(graph, op, Pass::BackwardInput, ranges, DeviceId(0));
  EXPECT_EQ(e.source, Analytic);
  EXPECT_EQ(e.time, analytic.operator_time(graph, op, Pass::BackwardInput, ranges, DeviceId(0)));
  EXPECT_EQ(costs.update_estimate({Optimizer::Sgd, DataType::Float32, 100}, DeviceId(0)).source, Analytic);
}

TEST(CalibratedCosts, TakeTheNearestNumberOfBusyNeighbours) {
  Calibration calibration = empty_calibration();
  calibration.add(measured_rows(1024, 1e-3, 0));
  calibration.add(measured_rows(1024, 2e-3, 3));
  const Topology alone = switched({1}), eight = switched({8});
  EXPECT_EQ(estimate_rows(CostModel(alone, &calibration), 1024).time, Seconds(1e-3));
  EXPECT_EQ(estimate_rows(CostModel(eight, &calibration), 1024).time, Seconds(2e-3));
}

TEST(CalibratedCosts, InterpolateUpdates) {
  const Topology topology = switched({1});
  Calibration calibration = empty_calibration();
  const CostModel analytic(topology);
  const auto key = [](std::int64_t n) { return update_key(Optimizer::Adam, n, DataType::Float32, "plain"); };
  const auto base = [&](std::int64_t n) {
    return analytic.update_time({Optimizer::Adam, DataType::Float32, n}, DeviceId(0)).value;
  };
  calibration.add({key(1000), {}, {2 * base(1000)}, 0});
  calibration.add({key(100'000), {}, {8 * base(100'000)}, 0});
  const CostModel costs(topology, &calibration);
  const Estimate e = costs.update_estimate({Optimizer::Adam, DataType::Float32, 10'000}, DeviceId(0));
  EXPECT_NEAR(e.time.value, 4 * base(10'000), 1e-12);
  EXPECT_EQ(e.source, Interpolated);
  EXPECT_EQ(costs.update_time({Optimizer::Adam, DataType::Float32}, DeviceId(0)), Seconds(0));
}

TEST(CalibratedCosts, ScaleCollectivesAndTheirLanes) {
  const Topology topology = switched({4});
  const CostModel analytic(topology);
  const auto group = devices({0, 1, 2, 3});
  const Bytes small(1 << 10), large(1 << 20), between(1 << 15);
  const auto plain = [&](Bytes size) { return analytic.collective_time(Collective::AllReduce, group, size); };
  Calibration calibration = empty_calibration();
  for (const Bytes size : {small, large}) {
    calibration.add({transfer_key(Collective::AllReduce, 4, size, DataType::Float32, "node"),
                     {},
                     {3 * plain(size).duration.value},
                     0});
  }
  const CollectivePlan plan = CostModel(topology, &calibration).plan_collective(Collective::AllReduce, group);
  EXPECT_EQ(plan.source_at(small), Measured);
  EXPECT_EQ(plan.source_at(between), Interpolated);
  const CollectiveTime time = plan.at(between);
  EXPECT_EQ(time.duration, plan.duration_at(between));
  EXPECT_NEAR(time.duration / plain(between).duration, 3, 1e-9);
  ASSERT_EQ(time.lanes.size(), plain(between).lanes.size());
  for (std::size_t i = 0; i < time.lanes.size(); ++i) {
    EXPECT_NEAR(time.lanes[i].hold / plain(between).lanes[i].hold, 3, 1e-9);
    EXPECT_LE((time.latency + time.lanes[i].hold).value, time.duration.value * (1 + 1e-12));
  }
  EXPECT_EQ(CostModel(topology, &calibration).plan_collective(Collective::AllGather, group).source_at(small),
            Analytic);
}

TEST(CalibratedCosts, CorrectWhatWasNotMeasuredItself) {
  Calibration calibration = empty_calibration();
  calibration.add(measured_rows(1024, 5e-3));
  calibration.corrections["forward"] = {2, 1e-3, 10, 1};
  calibration.corrections["send"] = {1.5, 1e-4, 10, 1};
  const Topology topology = switched({2});
  const CostModel costs(topology, &calibration), analytic(topology);
  EXPECT_DOUBLE_EQ(estimate_rows(costs, 1024).time.value, 5e-3);
  const double ratio = 5e-3 / estimate_rows(analytic, 1024).time.value;
  EXPECT_NEAR(estimate_rows(costs, 2048).time.value,
              2 * ratio * estimate_rows(analytic, 2048).time.value + 1e-3, 1e-12);
  const auto pair = devices({0, 1});
  const CollectiveTime before = analytic.collective_time(Collective::Send, pair, Bytes(1 << 20));
  const CollectiveTime after = costs.collective_time(Collective::Send, pair, Bytes(1 << 20));
  EXPECT_NEAR(after.duration.value, before.duration.value * 1.5 + 1e-4, 1e-12);
  EXPECT_NEAR(after.lanes[0].hold.value, before.lanes[0].hold.value * 1.5, 1e-12);
}

TEST(CalibratedCosts, WarnOfOtherDevices) {
  Calibration calibration = empty_calibration();
  calibration.add(measured_rows(1024, 5e-3));
  DeviceKind other = plain_kind();
  other.name = "H100";
  const Topology one = switched({1}, other);
  const CostModel costs(one, &calibration);
  EXPECT_THAT(costs.calibration_warnings(),
              testing::ElementsAre("device: measured on \"plain\", the topology has \"H100\""));
  EXPECT_EQ(estimate_rows(costs, 1024).source, Measured);
  TopologyParts parts = switched({2}).parts();
  parts.kinds.push_back(other);
  parts.devices[0].kind = 1;
  const Topology mixed(std::move(parts));
  const CostModel of_mixed(mixed, &calibration);
  EXPECT_THAT(of_mixed.calibration_warnings(),
              testing::ElementsAre("device: nothing was measured on \"H100\", only on plain"));
  EXPECT_EQ(estimate_rows(of_mixed, 1024).source, Analytic);
}

// What an eighth of a GPU does is neither what a sixteenth nor what all of it does, and the other way round.
TEST(CalibratedCosts, OfPartsOfAGpuAreOfSoManyParts) {
  const GpuShare eighth{8, 16, 132}, sixteenth{16, 8, 132}, whole{1, 132, 132};
  const auto pair = devices({0, 1});
  const Topology all = switched({8});
  for (const GpuShare& measured : {eighth, sixteenth, whole}) {
    const Topology of_measured = with_share(all, measured);
    Calibration calibration = empty_calibration();
    Measurement rows = measured_rows(1024, 5e-3, 7);
    rows.key.place = of_measured.kind(DeviceId(0)).name;
    calibration.add(rows);
    calibration.add(
        {transfer_key(Collective::Send, 2, Bytes(1 << 20), DataType::Float32, link_class(of_measured, pair)),
         {},
         {7e-3},
         0});
    for (const GpuShare& asked : {eighth, sixteenth, whole}) {
      const Topology topology = with_share(all, asked);
      const CostModel costs(topology, &calibration);
      const bool same = asked == measured;
      EXPECT_EQ(estimate_rows(costs, 1024).source, same ? Measured : Analytic);
      EXPECT_EQ(costs.plan_collective(Collective::Send, pair).source_at(Bytes(1 << 20)),
                same ? Measured : Analytic);
      const std::string warning = "device: nothing was measured on \"" + topology.kind(DeviceId(0)).name +
                                  "\", only on " + rows.key.place;
      EXPECT_EQ(costs.calibration_warnings(),
                same ? std::vector<std::string>{} : std::vector<std::string>{warning});
    }
  }
}

}  // namespace
}  // namespace pipesim
