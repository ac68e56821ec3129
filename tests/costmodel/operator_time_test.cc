#include <gmock/gmock.h>

#include "costmodel/cost_model.h"
#include "costmodel/matrix_efficiency.h"
#include "costmodel/shard_kernel.h"
#include "models/graph_builder.h"
#include "models/zoo/zoo.h"
#include "sim/base/errors.h"
#include "tests/costmodel/samples.h"
#include "topologies/presets/presets.h"

namespace pipesim {
namespace {

using testing::DoubleNear;

constexpr double launch = 2e-6, rate = 50e12, memory_rate = 0.8e12;  ///< of plain_kind()
constexpr Pass passes[] = {Pass::Forward, Pass::BackwardInput, Pass::BackwardWeight};

struct Fixture {
  Topology topology = switched({2});
  CostModel costs{topology};

  double seconds(const OperatorGraph& graph, std::size_t op, Pass pass) const {
    const Operator& one = graph.operators()[op];
    return costs.operator_time(graph, one, pass, whole_ranges(one), DeviceId(0)).value;
  }
};

/// x[1024, 512] → 2048 → 2048, without biases.
OperatorGraph two_linears() {
  GraphBuilder builder("two", 1024);
  TensorId x = builder.data("x", {1024, 512});
  TensorId h = builder.add("linear", "a", {x}, {{"out", std::int64_t{2048}}, {"bias", std::int64_t{0}}});
  builder.add("linear", "b", {h}, {{"out", std::int64_t{2048}}, {"bias", std::int64_t{0}}});
  return builder.build();
}

double product_seconds(MatrixSize size) {
  double flops = 2 * static_cast<double>(size.rows) * static_cast<double>(size.columns) *
                 static_cast<double>(size.inner);
  return flops / (rate * matrix_efficiency(size, MatrixUnits::Plain));
}

TEST(OperatorTime, OfAProductIsItsFlopsAtTheAchievableRate) {
  Fixture f;
  OperatorGraph graph = two_linears();
  EXPECT_THAT(f.seconds(graph, 0, Pass::Forward),
              DoubleNear(launch + product_seconds({1, 1024, 2048, 512}), 1e-12));
  EXPECT_THAT(f.seconds(graph, 1, Pass::BackwardInput),
              DoubleNear(launch + product_seconds({1, 1024, 2048, 2048}), 1e-12));
  EXPECT_THAT(f.seconds(graph, 1, Pass::BackwardWeight),
              DoubleNear(launch + product_seconds({1, 2048, 2048, 1024}), 1e-12));
}

TEST(OperatorTime, LeavesOutGradientsThatNothingWants) {
  Fixture f;
  OperatorGraph graph = two_linears();
  EXPECT_EQ(f.seconds(graph, 0, Pass::BackwardInput), 0);
  EXPECT_GT(f.seconds(graph, 0, Pass::BackwardWeight), 0);
}

TEST(OperatorTime, OfPointWiseOperatorsIsTheirBytes) {
  Fixture f;
  GraphBuilder builder("relu", 1000);
  TensorId x = builder.data("x", {1000, 1000});
  TensorId h = builder.add("linear", "a", {x}, {{"out", std::int64_t{1000}}});
  builder.add("relu", "r", {h});
  OperatorGraph graph = builder.build();
  EXPECT_THAT(f.seconds(graph, 1, Pass::Forward), DoubleNear(launch + 8e6 / memory_rate, 1e-12));
  // Backward reads dy and y, and writes dx.
  EXPECT_THAT(f.seconds(graph, 1, Pass::BackwardInput), DoubleNear(launch + 12e6 / memory_rate, 1e-12));
  EXPECT_EQ(f.seconds(graph, 1, Pass::BackwardWeight), 0);
}

TEST(OperatorTime, OfAReshapeIsNothing) {
  Fixture f;
  GraphBuilder builder("reshape", 16);
  TensorId x = builder.data("x", {16, 8, 4});
  builder.add("reshape", "r", {x}, {{"shape", std::vector<std::int64_t>{16, 32}}});
  OperatorGraph graph = builder.build();
  ASSERT_TRUE(graph.operators()[0].moves_nothing);
  for (Pass pass : passes) EXPECT_EQ(f.seconds(graph, 0, pass), 0);
}

TEST(OperatorTime, ScalesMeasuredTimesByTheShare) {
  Fixture f;
  OperatorGraph plain = two_linears();
  std::vector<Operator> operators(plain.operators().begin(), plain.operators().end());
  for (Operator& op : operators) op.measured = MeasuredTime{Seconds(0.4), Seconds(0.8)};
  OperatorGraph graph("measured", 1024, {plain.tensors().begin(), plain.tensors().end()}, operators);
  EXPECT_DOUBLE_EQ(f.seconds(graph, 1, Pass::Forward), 0.4);
  EXPECT_DOUBLE_EQ(f.seconds(graph, 1, Pass::BackwardInput), 0.4);
  EXPECT_DOUBLE_EQ(f.seconds(graph, 1, Pass::BackwardWeight), 0.4);
  // The first has one backward pass only: all of the figure is its.
  EXPECT_DOUBLE_EQ(f.seconds(graph, 0, Pass::BackwardWeight), 0.8);
  std::vector<Range> quarter = whole_ranges(graph.operators()[1]);
  quarter[0].end = 256;
  EXPECT_DOUBLE_EQ(
      f.costs.operator_time(graph, graph.operators()[1], Pass::Forward, quarter, DeviceId(0)).value, 0.1);
}

TEST(OperatorTime, OfAnEmptyShardIsNothing) {
  Fixture f;
  OperatorGraph graph = two_linears();
  std::vector<Range> ranges = whole_ranges(graph.operators()[1]);
  ranges[0] = {3, 3};
  EXPECT_EQ(f.costs.operator_time(graph, graph.operators()[1], Pass::Forward, ranges, DeviceId(0)),
            Seconds(0));
}

TEST(OperatorTime, RefusesUpdatesAndForeignRanges) {
  Fixture f;
  OperatorGraph graph = two_linears();
  EXPECT_THROW((void)f.seconds(graph, 0, Pass::Update), InternalError);
  std::vector<Range> one{{0, 1}};
  EXPECT_THROW((void)f.costs.operator_time(graph, graph.operators()[0], Pass::Forward, one, DeviceId(0)),
               InternalError);
}

TEST(PeakRate, FallsBackToTheNextSensibleType) {
  using enum DataType;
  DeviceKind kind = plain_kind();
  kind.peak = {{Float32, FlopsPerSecond(1)}, {Float16, FlopsPerSecond(8)}};
  EXPECT_EQ(peak_rate(kind, Float16), FlopsPerSecond(8));
  EXPECT_EQ(peak_rate(kind, BFloat16), FlopsPerSecond(8));
  EXPECT_EQ(peak_rate(kind, TensorFloat32), FlopsPerSecond(1));
  EXPECT_EQ(peak_rate(kind, Int32), FlopsPerSecond(1));
  kind.peak = {{BFloat16, FlopsPerSecond(4)}, {Float64, FlopsPerSecond(2)}};
  EXPECT_EQ(peak_rate(kind, Float16), FlopsPerSecond(4));
  EXPECT_EQ(peak_rate(kind, Float32), FlopsPerSecond(2));
}

/// A box of the operator's factors that its cuts allow.
std::vector<Range> random_shard(const Operator& op, Rng& rng) {
  std::vector<Range> ranges;
  for (const Factor& factor : op.factors) {
    std::int64_t most = std::min(factor.size / factor.granule, factor.max_degree);
    std::int64_t degree = rng.below(2) == 0 ? 1 : rng.between(1, std::min<std::int64_t>(most, 8));
    ranges.push_back(cut(factor, degree, rng.between(0, degree - 1)));
  }
  return ranges;
}

TEST(IdealTime, IsALowerBound) {
  Topology topology = make_topology("dgx-a100");
  CostModel costs(topology);
  std::vector<OperatorGraph> graphs;
  for (const char* name : {"resnet50", "gpt2", "nmt"}) graphs.push_back(make_zoo_model(name));
  for_each_seed(200, [&](Rng& rng) {
    const OperatorGraph& graph = graphs[rng.below(graphs.size())];
    const Operator& op = graph.operators()[rng.below(graph.operators().size())];
    std::vector<Range> ranges = random_shard(op, rng);
    for (Pass pass : passes) {
      Seconds ideal, time;
      try {
        ideal = costs.ideal_time(graph, op, pass, ranges, topology.kind(DeviceId(0)));
        time = costs.operator_time(graph, op, pass, ranges, DeviceId(0));
      } catch (const InputError&) {
        continue;  // no box: the merged rule refuses these cuts
      }
      EXPECT_LE(ideal, time) << op.name;
      EXPECT_GE(ideal.value, 0) << op.name;
    }
  });
}

// 3 x 5 times 5 x 7 fills no tile of any library.
TEST(OperatorTime, LosesNothingToShapesWhereADeviceHasNoShapeLosses) {
  const KernelWork work{2.0 * 3 * 5 * 7, 1, MatrixSize{1, 3, 7, 5}};
  DeviceKind kind = plain_kind();
  EXPECT_GT(analytic_time(work, DataType::Float32, kind), Seconds(2e-6 + 2 * work.flops / 50e12));
  kind.shape_losses = false;
  EXPECT_DOUBLE_EQ(analytic_time(work, DataType::Float32, kind).value, 2e-6 + work.flops / 50e12);
}

TEST(OperatorTime, OfFusedAttentionFollowsTheKindsOwnShareOfThePeak) {
  DeviceKind kind = plain_kind();
  for (const DataType type : {DataType::Float16, DataType::BFloat16})
    kind.peak[type] = FlopsPerSecond(800e12);
  const auto seconds = [&](FusedPass pass, DataType type, std::int64_t width = 128) {
    const bool forward = pass != FusedPass::Backward;
    const KernelWork work{4e12, 1, MatrixSize{8, 4096, forward ? 4096 : width, forward ? width : 4096, pass}};
    return (analytic_time(work, type, kind) - kind.launch_overhead).value;
  };
  const double product = seconds(FusedPass::None, DataType::BFloat16);
  EXPECT_EQ(seconds(FusedPass::Forward, DataType::BFloat16), product);  // nothing is known of this kind
  kind.fused_attention = {0.75, 0.5};
  const double at_peak = 4e12 / 800e12;
  EXPECT_DOUBLE_EQ(seconds(FusedPass::Forward, DataType::BFloat16), at_peak / 0.75);
  EXPECT_DOUBLE_EQ(seconds(FusedPass::Backward, DataType::Float16), at_peak / 0.5);
  EXPECT_EQ(seconds(FusedPass::None, DataType::BFloat16), product);
  EXPECT_EQ(seconds(FusedPass::Forward, DataType::Float32), seconds(FusedPass::None, DataType::Float32));
  // Steps of 32 at the beginning and the end of a head are lost: 64 of 96, where 128 of 160 are usual.
  EXPECT_DOUBLE_EQ(seconds(FusedPass::Forward, DataType::BFloat16, 64), at_peak / (0.75 * (64.0 / 96) / 0.8));
  EXPECT_DOUBLE_EQ(seconds(FusedPass::Backward, DataType::BFloat16, 64), at_peak / (0.5 * (64.0 / 96) / 0.8));
  kind.shape_losses = false;
  EXPECT_DOUBLE_EQ(seconds(FusedPass::Forward, DataType::BFloat16, 64), at_peak / 0.75);
}

// Tiles that an edge of the mask cuts cost as much as so many keys: one edge of a causal mask, two of a
// window.
TEST(OperatorTime, OfFusedAttentionLosesWhereEdgesCutIt) {
  DeviceKind kind = plain_kind();
  kind.peak[DataType::BFloat16] = FlopsPerSecond(800e12);
  const auto seconds = [&](double keys, std::int32_t edges, std::int64_t rows = 4096) {
    const MatrixSize scores{.batch = 8,
                            .rows = rows,
                            .columns = 4096,
                            .inner = 128,
                            .fused = FusedPass::Forward,
                            .visible_keys = keys,
                            .cut_edges = edges};
    return (analytic_time({4e12, 1, scores}, DataType::BFloat16, kind) - kind.launch_overhead).value;
  };
  const double at_peak = 4e12 / 800e12;
  kind.fused_attention = {0.75, 0.5, 400, 0};
  EXPECT_DOUBLE_EQ(seconds(2048, 1), at_peak / (0.75 * 2048 / 2448));
  EXPECT_DOUBLE_EQ(seconds(128, 2), at_peak / (0.75 * 128 / 928));
  kind.fused_attention = {0.75, 0.5, 0, 32768};
  EXPECT_DOUBLE_EQ(seconds(2048, 1), at_peak / (0.75 * 0.5));
  EXPECT_DOUBLE_EQ(seconds(2048, 1, 3 * 4096), at_peak / (0.75 * 0.75));
}

TEST(OperatorTime, KnowsWhatAQuerySees) {
  const auto scores_of = [](const char* options, Pass pass) {
    const OperatorGraph graph =
        make_zoo_model(std::string("decoder:sequence=1024,hidden=512,heads=4,") + options);
    const auto op = std::ranges::find(graph.operators(), "attention", &Operator::kind);
    return *shard_kernel(graph, *op, pass, whole_ranges(*op)).work.matrix;
  };
  const MatrixSize causal = scores_of("mixers=F,ffns=D", Pass::Forward),
                   window = scores_of("mixers=W,ffns=D,window=128", Pass::BackwardInput);
  EXPECT_DOUBLE_EQ(causal.visible_keys, 1025.0 / 2);
  EXPECT_EQ(causal.cut_edges, 1);
  // The first 128 queries see fewer.
  EXPECT_DOUBLE_EQ(window.visible_keys, (128.0 * 129 / 2 + (1024 - 128) * 128.0) / 1024);
  EXPECT_EQ(window.cut_edges, 2);
}

// Backward of a norm, where the runtime's kernels are slow there.
TEST(OperatorTime, OfNormsFollowsTheRuntime) {
  const Topology topology = make_topology("dgx-h100:gpus=1");
  const OperatorGraph graph = make_zoo_model("llama:layers=1,dtype=bfloat16");
  const auto norm = std::ranges::find(graph.operators(), "rms_norm", &Operator::kind);
  const auto seconds = [&](const char* runtime, Pass pass) {
    const CostModel costs(topology, nullptr, parse_runtime(runtime));
    return costs.operator_time(graph, *norm, pass, whole_ranges(*norm), DeviceId(0)).value;
  };
  const double begin = topology.kind(DeviceId(0)).launch_overhead.value;
  EXPECT_EQ(seconds("pipesim", Pass::Forward), seconds("pipesim:norm-backward=0.5", Pass::Forward));
  EXPECT_NEAR(seconds("pipesim:norm-backward=0.5", Pass::BackwardInput) - begin,
              2 * (seconds("pipesim", Pass::BackwardInput) - begin), 1e-12);
}

TEST(IdealTime, NeedsNoLaunch) {
  Fixture f;
  OperatorGraph graph = two_linears();
  const Operator& op = graph.operators()[0];
  double ideal = f.costs.ideal_time(graph, op, Pass::Forward, whole_ranges(op), plain_kind()).value;
  EXPECT_DOUBLE_EQ(ideal, 2.0 * 1024 * 2048 * 512 / 100e12);
}

}  // namespace
}  // namespace pipesim
