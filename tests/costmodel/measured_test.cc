#include <gmock/gmock.h>

#include <fmt/format.h>

#include "costmodel/cost_model.h"
#include "models/graph_builder.h"
#include "tests/costmodel/samples.h"
#include "topologies/presets/presets.h"

namespace pipesim {
namespace {

struct CollectiveRow {
  Collective kind;
  std::size_t gpus;
  std::int64_t bytes;  ///< of one GPU's buffer
  double microseconds;
};

/// Rows drawn at random from ai-dynamo/aiconfigurator@095f58a51 (Apache-2.0),
/// systems/data/*/comm/nccl/2.27.3, half.
constexpr CollectiveRow a100_rows[] = {
    {Collective::AllReduce, 4, 268435456, 1926.6},   {Collective::AllReduce, 2, 16384, 12.75},
    {Collective::AllToAll, 8, 262144, 18.4},         {Collective::AllGather, 4, 1048576, 22.53},
    {Collective::ReduceScatter, 8, 4096, 14.65},     {Collective::AllGather, 8, 67108864, 351.6},
    {Collective::ReduceScatter, 8, 16777216, 123.4}, {Collective::AllGather, 8, 65536, 21.15},
    {Collective::AllReduce, 8, 67108864, 595.3},     {Collective::ReduceScatter, 4, 16777216, 109.3},
    {Collective::AllGather, 2, 65536, 12.52},        {Collective::AllToAll, 4, 268435456, 1070.6},
    {Collective::AllToAll, 8, 268435456, 1197.9},    {Collective::AllReduce, 2, 4096, 10.22},
    {Collective::AllGather, 2, 4194304, 43.28}};
constexpr CollectiveRow h100_rows[] = {{Collective::AllGather, 4, 1024, 7.34},
                                       {Collective::ReduceScatter, 2, 67108864, 169.15},
                                       {Collective::AllToAll, 8, 1048576, 15.64},
                                       {Collective::AllToAll, 2, 1024, 6.25},
                                       {Collective::ReduceScatter, 4, 65536, 8.41},
                                       {Collective::AllToAll, 8, 16777216, 72.58},
                                       {Collective::ReduceScatter, 2, 268435456, 585.63},
                                       {Collective::ReduceScatter, 2, 4194304, 23.46},
                                       {Collective::AllReduce, 2, 4194304, 33.05},
                                       {Collective::AllGather, 2, 65536, 6.35},
                                       {Collective::AllReduce, 4, 16777216, 99.36},
                                       {Collective::AllToAll, 4, 1048576, 15.31},
                                       {Collective::ReduceScatter, 8, 262144, 12.06},
                                       {Collective::AllReduce, 4, 4096, 9.94},
                                       {Collective::AllGather, 4, 4194304, 36.86}};

template <class Rows>
std::vector<Comparison> compare(const Rows& rows, const char* system, double tolerance) {
  Topology topology = make_topology(system);
  CostModel costs(topology);
  std::vector<Comparison> compared;
  for (const CollectiveRow& row : rows) {
    std::int64_t size =
        row.bytes * (row.kind == Collective::AllToAll ? static_cast<std::int64_t>(row.gpus) : 1);
    double predicted =
        costs.collective_time(row.kind, first_devices(row.gpus), Bytes(size)).duration.value * 1e6;
    compared.push_back({predicted, row.microseconds});
    EXPECT_LT(compared.back().error(), tolerance)
        << fmt::format("{} on {} GPUs of {}, {} bytes: {:.1f} us, measured {:.1f}", name_of(row.kind),
                       row.gpus, system, row.bytes, predicted, row.microseconds);
  }
  return compared;
}

TEST(Measured, CollectivesBehindASwitch) {
  EXPECT_LT(median_error(compare(a100_rows, "dgx-a100", 0.3)), 0.08);
  EXPECT_LT(median_error(compare(h100_rows, "dgx-h100", 0.3)), 0.08);
}

// The switch adds from 1 MiB on (NVLS), and a ring would take a third longer at the largest size. Same
// source.
TEST(Measured, AllReducesInASwitch) {
  constexpr Collective kind = Collective::AllReduce;
  constexpr CollectiveRow rows[] = {{kind, 8, 1048576, 25.4},
                                    {kind, 8, 4194304, 50.32},
                                    {kind, 8, 16777216, 122.08},
                                    {kind, 8, 67108864, 321.86},
                                    {kind, 8, 268435456, 1087.61}};
  EXPECT_LT(median_error(compare(rows, "dgx-h100", 0.2)), 0.08);
}

// All-reduces of NCCL on a DGX-1: VIA-Research/vTrain, trace/v100/AR_GPU{2,4,8}_1M_1024M_LUT.
TEST(Measured, AllReducesOnACubeMesh) {
  constexpr Collective kind = Collective::AllReduce;
  constexpr CollectiveRow rows[] = {
      {kind, 2, 1048576, 70.14},   {kind, 2, 16777216, 764.1},   {kind, 2, 268435456, 11915},
      {kind, 4, 1048576, 67.26},   {kind, 4, 4194304, 142.1},    {kind, 4, 16777216, 324.2},
      {kind, 4, 67108864, 1202.1}, {kind, 4, 1073741824, 18869}, {kind, 8, 1048576, 79.93},
      {kind, 8, 4194304, 150.9},   {kind, 8, 16777216, 273.8},   {kind, 8, 67108864, 911.3},
      {kind, 8, 1073741824, 13969}};
  EXPECT_LT(median_error(compare(rows, "dgx1-v100", 0.45)), 0.08);
}

struct GemmRow {
  std::int64_t m, n, k;
  double milliseconds;
};

/// bfloat16, over 10 GFLOP, drawn at random from the same source, gemm tables of trtllm 1.0.0 and 1.3.0rc20.
constexpr GemmRow a100_gemms[] = {{2048, 2560, 1024, 0.0611},  {2048, 16384, 4096, 1.0374},
                                  {4096, 10240, 5120, 1.5856}, {1024, 4096, 2048, 0.1080},
                                  {8192, 3584, 10240, 2.3955}, {1024, 3584, 2560, 0.1325},
                                  {2048, 7168, 512, 0.0753}};
constexpr GemmRow h100_gemms[] = {{3073, 2560, 6144, 0.1230},  {4353, 8192, 2560, 0.2358},
                                  {1793, 3072, 3584, 0.05304}, {2048, 4096, 3072, 0.06834},
                                  {1537, 4096, 3584, 0.06967}, {3840, 7168, 5120, 0.3651},
                                  {16384, 12288, 32, 0.1520},  {3329, 2560, 2560, 0.06059}};

double gemm_milliseconds(const CostModel& costs, const GemmRow& row) {
  GraphBuilder builder("gemm", row.m, DataType::BFloat16);
  TensorId x = builder.data("x", {row.m, row.k});
  builder.add("linear", "y", {x}, {{"out", row.n}, {"bias", std::int64_t{0}}});
  OperatorGraph graph = builder.build();
  const Operator& op = graph.operators()[0];
  return costs.operator_time(graph, op, Pass::Forward, whole_ranges(op), DeviceId(0)).value * 1e3;
}

template <class Rows>
std::vector<Comparison> compare_gemms(const Rows& rows, const char* system) {
  TopologyParts parts = make_topology(system).parts();
  for (DeviceKind& kind : parts.kinds) kind.products.sustained = 1;  // they were run one by one
  Topology topology(parts);
  CostModel costs(topology);
  std::vector<Comparison> compared;
  for (const GemmRow& row : rows) {
    compared.push_back({gemm_milliseconds(costs, row), row.milliseconds});
    EXPECT_LT(compared.back().error(), 0.45)
        << fmt::format("{} x {} x {} on {}: {:.4f} ms, measured {:.4f}", row.m, row.n, row.k, system,
                       compared.back().predicted, row.milliseconds);
  }
  return compared;
}

// The worst rows are those whose tiles just overflow a wave of the device's multiprocessors (1024 × 3584 ×
// 2560: 224 tiles on 108), of which the kinds say nothing.
TEST(Measured, MatrixProducts) {
  EXPECT_LT(median_error(compare_gemms(a100_gemms, "dgx-a100")), 0.14);
  EXPECT_LT(median_error(compare_gemms(h100_gemms, "dgx-h100")), 0.12);
}

}  // namespace
}  // namespace pipesim
