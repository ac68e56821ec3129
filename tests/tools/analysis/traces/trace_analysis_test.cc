#include "tools/analysis/traces/trace_analysis.h"

#include <gmock/gmock.h>

#include <cmath>

#include "costmodel/cost_model.h"
#include "tests/tools/interop/traces/kineto_text.h"
#include "tools/analysis/traces/time_spans.h"

namespace pipesim {
namespace {

using testing::DoubleNear;
using testing::ElementsAre;
using testing::IsEmpty;
using testing::SizeIs;

TraceAnalysis analysis_of(const KinetoText& text) {
  const MeasuredTrace trace = text.read();
  return analyze({&trace, 1});
}

TEST(TimeSpans, AreSets) {
  const TimeSpans spans = united({{5, 9}, {0, 3}, {2, 4}, {9, 10}, {20, 20}});
  EXPECT_THAT(spans, ElementsAre(TimeSpan{0, 4}, TimeSpan{5, 10}));
  EXPECT_THAT(without(spans, {{1, 2}, {3, 6}}), ElementsAre(TimeSpan{0, 1}, TimeSpan{2, 3}, TimeSpan{6, 10}));
  EXPECT_THAT(within(spans, {3, 7}), ElementsAre(TimeSpan{3, 4}, TimeSpan{5, 7}));
  EXPECT_EQ(total(spans), 9);
  EXPECT_EQ(covered({2, 6}, spans), 3);
  EXPECT_EQ(covered({10, 12}, spans), 0);
}

TEST(TracedQuantiles, InterpolateBetweenNeighbours) {
  EXPECT_EQ(quantiles_of({}), Quantiles());
  EXPECT_EQ(quantiles_of({4, 1, 2, 3}), (Quantiles{4, 1.75, 2.5, 3.25}));
}

// A step: 8 kernels of 10 us, one every 50 us; each is launched 40 us after the end of the one before.
KinetoText host_bound(int steps) {
  KinetoText text;
  for (int s = 0; s < steps; ++s) {
    for (int i = 0; i < 8; ++i) {
      const int number = 8 * s + i;
      const double start = 100 + 50.0 * number;
      text.launch(start - 4, 2, number).kernel(fmt::format("k{}", i), start, 10, number);
    }
  }
  return text;
}

TEST(LaunchGaps, ComeFromTheHostWhereItLaunchesLate) {
  const TraceAnalysis analysis = analysis_of(host_bound(3));
  const DeviceAnalysis& of = analysis.devices.front();
  EXPECT_EQ(of.device.source, StepSource::Repeats);
  ASSERT_THAT(of.steps, SizeIs(3));
  EXPECT_NEAR(of.host.median, 50e-6, 1e-12);
  EXPECT_EQ(of.host.count, 23U) << "all but the first";
  EXPECT_NEAR(of.steps[0].length.value, 400e-6, 1e-12) << "until the next step begins";
  EXPECT_NEAR(of.steps[0].busy.value, 80e-6, 1e-12);
  EXPECT_NEAR(of.steps[0].late_launch.value, 320e-6, 1e-12);
  EXPECT_NEAR(of.steps[0].dependencies.value, 0, 1e-12);
  EXPECT_NEAR(of.steps[2].length.value, 360e-6, 1e-12) << "until its last kernel ends";
  EXPECT_EQ(of.steps[0].launches, 8);
}

TEST(LaunchGaps, AreDependenciesWhereWorkWasLaunchedInTime) {
  // The second kernel was launched while the first ran, and begins 90 us after its end; the third is launched
  // 20 us after the second's end and begins 60 us later.
  const TraceAnalysis analysis = analysis_of(KinetoText()
                                                 .launch(0, 1, 1)
                                                 .launch(5, 1, 2)
                                                 .launch(219, 1, 3)
                                                 .kernel("a", 2, 8, 1)
                                                 .kernel("b", 100, 100, 2)
                                                 .kernel("c", 280, 5, 3));
  const StepTimes& step = analysis.devices.front().steps.front();
  EXPECT_NEAR(step.late_launch.value, 20e-6, 1e-12);
  EXPECT_NEAR(step.dependencies.value, 90e-6 + 60e-6, 1e-12);
  EXPECT_EQ(analysis.devices.front().host.count, 0U);
}

TEST(TracedSteps, AreThoseOfTheProfilerByTheTimeOfTheirLaunches) {
  KinetoText text = host_bound(2);
  text.range("ProfilerStep#4", 90, 5 * 50).range("ProfilerStep#5", 340, 3 * 50);
  const MeasuredTrace trace = text.read();
  const std::vector<TracedDevice> devices = traced_devices(trace);
  EXPECT_EQ(devices.front().source, StepSource::ProfilerSteps);
  ASSERT_THAT(devices.front().steps, SizeIs(2));
  EXPECT_EQ(devices.front().steps[0].name, "ProfilerStep#4");
  EXPECT_THAT(devices.front().steps[0].activities, SizeIs(5));
  EXPECT_THAT(devices.front().steps[1].activities, SizeIs(3)) << "others lie outside";
}

TEST(TracedSteps, LieBetweenOptimizerStepsOrAreTheWholeTrace) {
  KinetoText text;
  for (int i = 0; i < 9; ++i)
    text.launch(10.0 * i, 1, i).kernel(fmt::format("k{}", i * i), 10.0 * i + 2, 5, i);
  EXPECT_EQ(traced_devices(text.read()).front().source, StepSource::Whole);
  text.range("Optimizer.step#Adam.step", 28, 5).range("Optimizer.step#Adam.step", 68, 5);
  const MeasuredTrace trace = text.read();
  const std::vector<TracedDevice> devices = traced_devices(trace);
  EXPECT_EQ(devices.front().source, StepSource::Optimizer);
  ASSERT_THAT(devices.front().steps, SizeIs(1));
  EXPECT_THAT(devices.front().steps[0].activities, SizeIs(4)) << "launched at 40, 50, 60 and 70";
}

TEST(OperatorTimes, AreBySameInputs) {
  const std::string types = R"(["c10::BFloat16", "c10::BFloat16"])";
  KinetoText text;
  text.run("aten::mm", 100, 10, "[[64, 32], [32, 16]]", types)
      .run("aten::mm", 200, 14, "[[64, 32], [32, 16]]", types)
      .run("aten::mm", 300, 30, "[[64, 32], [32, 128]]", types)
      .kernel("fused", 400, 7, 900)
      .kernel("fused", 500, 9, 901);
  const TraceAnalysis analysis = analysis_of(text);
  const std::vector<OperatorTime>& times = analysis.devices.front().operators;
  ASSERT_THAT(times, SizeIs(3));
  EXPECT_EQ(times[0].inputs, "64x32 bfloat16, 32x128") << "the longest in total first";
  EXPECT_EQ(times[1].calls, 2);
  EXPECT_NEAR(times[1].call.median, 12e-6, 1e-12);
  EXPECT_EQ(times[1].work.flops, 2.0 * 64 * 32 * 16);
  EXPECT_EQ(times[1].work.matrix, (MatrixSize{1, 64, 16, 32, FusedPass::None}));
  EXPECT_EQ(times[2].name, "fused");
  EXPECT_NEAR(times[2].total.value, 16e-6, 1e-12);
}

TEST(OperatorTimes, AddTheKernelsOfACall) {
  KinetoText text;
  text.op("aten::norm", 0, 20, "[[8]]", R"(["float"])").launch(2, 1, 1).launch(5, 1, 2);
  text.kernel("part", 10, 4, 1).kernel("sum", 20, 3, 2);
  const TraceAnalysis analysis = analysis_of(text);
  ASSERT_THAT(analysis.devices.front().operators, SizeIs(1));
  EXPECT_EQ(analysis.devices.front().operators[0].calls, 1);
  EXPECT_NEAR(analysis.devices.front().operators[0].call.median, 7e-6, 1e-12);
}

TracedCall call_of(const std::vector<std::pair<std::string, std::vector<std::int64_t>>>& inputs,
                   std::vector<std::string> values = {}) {
  TracedCall call;
  for (const auto& [type, shape] : inputs) call.inputs.push_back({type, {shape}});
  call.values = std::move(values);
  return call;
}

TEST(TracedWork, OfProductsFollowsFromTheirShapes) {
  const std::string b = "c10::BFloat16";
  EXPECT_EQ(work_of("aten::addmm", call_of({{b, {16}}, {b, {8, 32}}, {b, {32, 16}}})).flops,
            2.0 * 8 * 32 * 16);
  EXPECT_EQ(work_of("aten::bmm", call_of({{b, {3, 8, 32}}, {b, {3, 32, 16}}})).flops, 3 * 2.0 * 8 * 32 * 16);
  EXPECT_EQ(work_of("aten::linear", call_of({{b, {2, 8, 32}}, {b, {16, 32}}})).flops, 2.0 * 16 * 32 * 16);
  EXPECT_EQ(work_of("aten::mm", call_of({{b, {8, 32}}, {b, {31, 16}}})).flops, 0) << "no product";
  EXPECT_EQ(work_of("aten::mm", call_of({{b, {8}}})).flops, 0);
  EXPECT_EQ(work_of("aten::mm", {}).flops, 0);
  EXPECT_EQ(work_of("aten::comm", call_of({{b, {8, 32}}, {b, {32, 16}}})).flops, 0);
}

TEST(TracedWork, OfAttentionCountsWhatIsVisible) {
  const std::string b = "c10::BFloat16";
  std::vector<std::pair<std::string, std::vector<std::int64_t>>> inputs(9, {"", {}});
  for (int i = 0; i < 3; ++i) inputs[static_cast<std::size_t>(i)] = {b, {2, 128, 4, 64}};
  std::vector<std::string> values(9, "");
  const double all = 4.0 * 2 * 4 * 128 * 128 * 64;
  EXPECT_EQ(work_of("aten::_flash_attention_forward", call_of(inputs, values)).flops, all);
  values[8] = "True";
  EXPECT_EQ(work_of("aten::_flash_attention_forward", call_of(inputs, values)).flops, all * 129 / 256);
  std::vector<std::pair<std::string, std::vector<std::int64_t>>> gradients(12, {"", {}});
  for (int i = 0; i < 4; ++i) gradients[static_cast<std::size_t>(i)] = {b, {2, 4, 128, 64}};
  const TracedWork backward =
      work_of("aten::_scaled_dot_product_flash_attention_backward", call_of(gradients));
  EXPECT_EQ(backward.flops, 2.5 * all);
  EXPECT_EQ(backward.matrix, (MatrixSize{8, 128, 64, 128, FusedPass::Backward}));
}

TEST(TracedWork, OfMemoryCountsReadsAndWrites) {
  const std::string f = "float", b = "c10::BFloat16";
  EXPECT_EQ(work_of("aten::gelu", call_of({{b, {100}}})).bytes, 400);
  EXPECT_EQ(work_of("aten::add_", call_of({{f, {100}}, {b, {100}}})).bytes, 400 + 400 + 200);
  EXPECT_EQ(work_of("aten::copy_", call_of({{f, {100}}, {b, {100}}})).bytes, 400 + 200);
  EXPECT_EQ(work_of("aten::fill_", call_of({{f, {100}}, {"Scalar", {}}})).bytes, 400);
  EXPECT_EQ(work_of("aten::add", call_of({{f, {1}}, {f, {100}}})).bytes, 0) << "the result is larger";
  EXPECT_EQ(work_of("aten::_foreach_add_", {{{"TensorList", {{100}, {100}}}}, {}}).bytes, 0);
}

TEST(TracedWork, OfCallsWithTypesAloneIsNotKnown) {
  const TracedCall call{{{"float", {{4}}}, {"float", {}}}, {}};
  EXPECT_EQ(inputs_text(call), "4 float32");
  EXPECT_EQ(work_of("aten::mm", call).flops, 0);
}

TEST(WorkClass, IsThatOfTheOperatorOrOfThoseThatCallIt) {
  KinetoText text;
  text.op("aten::embedding", 0, 10).op("aten::gather", 1, 8).launch(2, 1, 1).kernel("a", 20, 1, 1);
  text.op("AccumulateGrad", 30, 10).op("aten::add_", 31, 8).launch(32, 1, 2).kernel("b", 50, 1, 2);
  text.op("aten::_log_softmax", 60, 5, "[[4, 10]]", R"(["float"])").launch(61, 1, 3).kernel("c", 70, 1, 3);
  text.op("aten::copy_", 80, 5, "[[2, 2, 10]]", R"(["float"])").launch(81, 1, 4).kernel("d", 90, 1, 4);
  text.op("aten::copy_", 100, 5, "[[2, 10]]", R"(["float"])").launch(101, 1, 5).kernel("e", 110, 1, 5);
  text.kernel("nvjet_tst_128x64", 120, 1, 6).kernel("ncclDevKernel_AllReduce", 130, 1, 7);
  text.event("gpu_memcpy", "Memcpy", 140, 1, R"("device":0,"stream":7,"correlation":8)");
  const MeasuredTrace trace = text.read();
  std::vector<WorkClass> classes;
  for (const DeviceActivity& activity : trace.activities) classes.push_back(class_of(trace, activity));
  using enum WorkClass;
  EXPECT_THAT(classes,
              ElementsAre(Embedding, GradientSums, Loss, Loss, Other, Products, Collectives, Copies));
}

// Names of kernels of mamba 2, flash-linear-attention and DeepGEMM.
TEST(WorkClass, IsThatOfTheKernelOfAScan) {
  KinetoText text;
  text.kernel("_chunk_scan_fwd_kernel", 0, 1, 1).kernel("_bmm_chunk_fwd_kernel", 2, 1, 2);
  text.kernel("chunk_gated_delta_rule_fwd_kernel_h", 4, 1, 3).kernel("chunk_fwd_kernel_o", 6, 1, 4);
  text.kernel("sm90_fp8_mqa_logits", 8, 1, 5);
  text.op("MambaChunkScanCombinedFn", 10, 10).op("aten::sum", 11, 8).launch(12, 1, 6).kernel("a", 30, 1, 6);
  text.op("ChunkKDAFunction", 40, 10).op("aten::mm", 41, 8).launch(42, 1, 7).kernel("b", 60, 1, 7);
  const MeasuredTrace trace = text.read();
  std::vector<WorkClass> classes;
  for (const DeviceActivity& activity : trace.activities) classes.push_back(class_of(trace, activity));
  using enum WorkClass;
  EXPECT_THAT(classes, ElementsAre(Scans, Scans, Scans, Scans, Attention, Scans, Products));
}

TEST(CollectiveTimes, RecoverAlphaAndBetaFromTheLeastTimeOfEachSize) {
  KinetoText text;
  double start = 0;
  for (const double late : {0.0, 300.0, 0.0}) {
    for (const std::int64_t elements : {250'000, 1'000'000, 4'000'000}) {
      const double time = 20 + 4e-6 * 4.0 * static_cast<double>(elements);  // 20 us, 4 s a TB
      text.collective("allreduce", start, time + late, elements);
      start += 10'000;
    }
  }
  const TraceAnalysis analysis = analysis_of(text);
  ASSERT_THAT(analysis.groups, SizeIs(1));
  const GroupTimes& group = analysis.groups.front();
  EXPECT_EQ(group.kind, Collective::AllReduce);
  EXPECT_THAT(group.members, ElementsAre(0, 1));
  ASSERT_TRUE(group.fit);
  EXPECT_NEAR(group.fit->alpha, 20e-6, 1e-9);
  EXPECT_NEAR(group.fit->beta, 4e-12, 1e-15);
  EXPECT_NEAR(group.waited.value, 900e-6, 1e-9);
  EXPECT_EQ(group.points[1].size, Bytes(4'000'000));
  EXPECT_EQ(group.points[1].calls, 3);
}

TEST(CollectiveTimes, TakeTheMemberThatArrivedLast) {
  // Every call waits on one of the two ranks, whose clocks differ by a second.
  KinetoText first, second;
  first.rank(0), second.rank(1);
  double start = 0;
  int n = 0;
  for (const std::int64_t elements : {250'000, 1'000'000, 4'000'000, 250'000}) {
    const double time = 20 + 4e-6 * 4.0 * static_cast<double>(elements), late = 100 + 50 * n;
    first.collective("allreduce", start, time + (n % 2 == 0 ? late : 0), elements);
    second.collective("allreduce", 1e6 + start, time + (n % 2 == 1 ? late : 0), elements);
    start += 10'000, ++n;
  }
  const MeasuredTrace traces[] = {first.read(), second.read()};
  EXPECT_EQ(traces[1].rank, 1);
  const TraceAnalysis analysis = analyze(traces);
  ASSERT_THAT(analysis.groups, SizeIs(1));
  const GroupTimes& group = analysis.groups.front();
  EXPECT_EQ(group.traces, 2U);
  ASSERT_TRUE(group.fit);
  EXPECT_NEAR(group.fit->alpha, 20e-6, 1e-9);
  EXPECT_NEAR(group.fit->beta, 4e-12, 1e-15);
  EXPECT_NEAR(group.waited.value, (100 + 150 + 200 + 250) * 1e-6, 1e-9);
}

TEST(CollectiveTimes, HaveNoLineWithoutTwoSizes) {
  EXPECT_FALSE(fit_line({}));
  EXPECT_FALSE(fit_line({{Bytes(100), 5, Seconds(1)}}));
  EXPECT_FALSE(fit_line({{Bytes(100), 1, Seconds(2)}, {Bytes(200), 1, Seconds(1)}}))
      << "larger ones are faster";
  const auto at_zero = fit_line({{Bytes(100), 1, Seconds(1)}, {Bytes(200), 1, Seconds(3)}});
  ASSERT_TRUE(at_zero);
  EXPECT_EQ(at_zero->alpha, 0);
}

TEST(CollectiveTimes, KnowTheNamesOfTorch) {
  EXPECT_EQ(traced_collective("_allgather_base"), Collective::AllGather);
  EXPECT_EQ(traced_collective("_reduce_scatter_base"), Collective::ReduceScatter);
  EXPECT_EQ(traced_collective("allreduce_coalesced"), Collective::AllReduce);
  EXPECT_EQ(traced_collective("all_to_allv"), Collective::AllToAll);
  EXPECT_EQ(traced_collective("barrier"), std::nullopt);
}

TEST(Overlap, SlowsKernelsAndHidesCommunication) {
  // Alone: 100 us. Beside the collective of 300 us: 130 us. 20 us of the collective are exposed at its begin,
  // 20 us at its end.
  KinetoText text;
  text.run("aten::mm", 1000, 100).run("aten::mm", 1200, 100);
  text.collective("allreduce", 2000, 300, 1000);
  text.run("aten::mm", 2020, 130).run("aten::mm", 2150, 130);
  const TraceAnalysis analysis = analysis_of(text);
  const DeviceAnalysis& of = analysis.devices.front();
  ASSERT_THAT(of.slowdowns, SizeIs(1));
  EXPECT_EQ(of.slowdowns[0].alone, 2);
  EXPECT_EQ(of.slowdowns[0].beside, 2);
  EXPECT_NEAR(of.slowdowns[0].times(), 1.3, 1e-9);
  EXPECT_NEAR(mean_slowdown(of.slowdowns), 1.3, 1e-9);
  EXPECT_NEAR(of.steps[0].communication.value, 300e-6, 1e-12);
  EXPECT_NEAR(of.steps[0].exposed.value, 40e-6, 1e-12);
  EXPECT_NEAR(of.steps[0].busy.value, 500e-6, 1e-12);
}

TEST(Overlap, IsNoneWithoutCommunication) {
  const TraceAnalysis analysis = analysis_of(host_bound(2));
  EXPECT_THAT(analysis.devices.front().slowdowns, IsEmpty());
  EXPECT_EQ(mean_slowdown(analysis.devices.front().slowdowns), 1);
  EXPECT_EQ(analysis.devices.front().steps[0].exposed.value, 0);
}

}  // namespace
}  // namespace pipesim
