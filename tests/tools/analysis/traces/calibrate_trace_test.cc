#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>

#include "costmodel/constants/cluster_constants.h"
#include "costmodel/cost_model.h"
#include "sim/base/files.h"
#include "tests/temporary_folder.h"
#include "tests/tools/command_line.h"
#include "tests/tools/interop/traces/kineto_text.h"
#include "tools/analysis/inputs/model_and_topology.h"
#include "tools/analysis/traces/collective_times.h"

namespace pipesim {
namespace {

using testing::HasSubstr;
using testing::Not;
using Json = nlohmann::json;

const std::string kH100 = std::string(PIPESIM_SOURCE_DIR) + "/docs/examples/pytorch_h100.trace.json.gz";
const std::string kTracedModel =
    "gpt:layers=2,hidden=1024,heads=16,vocab=50304,sequence=1024,positions=1024,dropout=0,dtype=bfloat16";

class CalibrateTrace : public testing::Test {
 protected:
  Outcome calibrate(const std::string& trace, const std::vector<std::string>& more = {}) {
    std::vector<std::string> words{"calibrate", "--from-trace", trace};
    words.insert(words.end(), more.begin(), more.end());
    return pipesim_run(words);
  }
  [[nodiscard]] std::string constants() const { return folder_.path("traced.constants.json"); }
  [[nodiscard]] std::string both() const { return folder_.path("both.trace.json"); }
  // With all that can be written, one line says why nothing is.
  void expect_refused(const std::string& trace, const std::string& why,
                      const std::string& model = kTracedModel) {
    const Outcome outcome =
        calibrate(trace, {"--topology", "dgx-h100:gpus=1", "--model", model, "--batch", "2", "--recipe",
                          "mbs2", "--runtime", "torch-eager", "-o", constants(), "--trace", both()});
    EXPECT_EQ(outcome.status, 1) << outcome;
    EXPECT_THAT(outcome.err, HasSubstr(why));
    EXPECT_EQ(std::ranges::count(outcome.err, '\n'), 1) << outcome.err;
    EXPECT_EQ(outcome.out, "");
    EXPECT_FALSE(std::filesystem::exists(constants()));
    EXPECT_FALSE(std::filesystem::exists(both()));
  }
  // The factor that the file has of a constant.
  double factor(const std::string& name) {
    for (const Constant& constant : parse_constants(read_file(constants()), "c").constants) {
      if (constant.text() == name) return std::exp(constant.log);
    }
    return 0;
  }

  TemporaryFolder folder_;
};

TEST_F(CalibrateTrace, ReportsWithoutWriting) {
  const Outcome outcome = calibrate(kH100);
  ASSERT_EQ(outcome.status, 0) << outcome;
  EXPECT_THAT(outcome.out,
              HasSubstr("2 steps on 1 device (NVIDIA H100 80GB HBM3), found by kernels that repeat"));
  EXPECT_THAT(outcome.out, HasSubstr("_fused_adamw_"));
  EXPECT_EQ(outcome.err, "");
}

TEST_F(CalibrateTrace, RefusesMalformedTraces) {
  const std::string whole = read_file(kH100);
  expect_refused(folder_.file("cut.json.gz", whole.substr(0, 20'000)), "the compressed data ends too early");
  expect_refused(folder_.file("text.json", "hello"), "not valid JSON");
  expect_refused(folder_.file("none.json", "{}"), "\"traceEvents\" is missing");
  expect_refused(folder_.file("idle.json", R"({"traceEvents": []})"), "found no kernel of a device");
  expect_refused(folder_.file("back.json", KinetoText().kernel("k", 3, -1, 2).str()),
                 "\"dur\" is -1 us, allowed: 0 or more");
  expect_refused(folder_.path(), "is a directory");
  expect_refused(folder_.path("missing.json"), "can't be read");
}

TEST_F(CalibrateTrace, RefusesAModelWhoseProductsAreNotInTheTrace) {
  expect_refused(
      kH100,
      "the trace has no product of the model, whose first is products 512x512 over 512; that of the trace "
      "is products 1024x1024 over 2048",
      "gpt:layers=2,hidden=512,heads=8,vocab=50304,sequence=256,positions=256,dropout=0,dtype=bfloat16");
}

TEST_F(CalibrateTrace, RefusesToWriteNoConstants) {
  expect_refused(folder_.file("a.json", KinetoText().kernel("k", 3, 1, 2).str()),
                 "the trace tells no constant");
}

TEST_F(CalibrateTrace, RefusesOptionsThatDoNotGoWithIt) {
  const auto message = [&](const std::vector<std::string>& more) {
    const Outcome outcome = calibrate(kH100, more);
    EXPECT_EQ(outcome.status, 2);
    return outcome.err;
  };
  EXPECT_THAT(message({"--plan", "a.plan.json"}), HasSubstr("--from-trace and --plan exclude each other"));
  EXPECT_THAT(message({"--trace", both()}), HasSubstr("--trace needs --recipe"));
  EXPECT_THAT(message({"--recipe", "tp1"}), HasSubstr("--recipe needs --model"));
  EXPECT_THAT(message({"-o", constants()}), HasSubstr("--output needs --topology"));
  EXPECT_THAT(message({"--runs", "a.csv"}), HasSubstr("exclude each other"));
  EXPECT_THAT(pipesim_run({"calibrate", "--recipe", "tp1"}).err, HasSubstr("--recipe needs --from-trace"));
}

TEST_F(CalibrateTrace, ComparesWithAPredictedStep) {
  const Outcome outcome =
      calibrate(kH100, {"--topology", "dgx-h100:gpus=1", "--model", kTracedModel, "--batch", "2", "--recipe",
                        "mbs2", "--runtime", "torch-eager", "-o", constants(), "--trace", both(), "--json"});
  ASSERT_EQ(outcome.status, 0) << outcome;
  const Json found = Json::parse(outcome.out);
  const Json& comparison = found["comparison"];
  double last = INFINITY, predicted = 0, measured = 0;
  for (const Json& work : comparison["work"]) {
    const double difference = std::abs(work["predicted_s"].get<double>() - work["measured_s"].get<double>());
    EXPECT_LE(difference, last) << "the largest differences first";
    last = difference;
    predicted += work["predicted_s"].get<double>();
    measured += work["measured_s"].get<double>();
  }
  // On one stream, classes and idle time are all of the step.
  EXPECT_NEAR(predicted, comparison["predicted_s"].get<double>(), 1e-7);
  EXPECT_NEAR(measured, comparison["measured_s"].get<double>(), 1e-7);
  const auto product = std::ranges::find(comparison["work"], "products 2048x50304 over 1024",
                                         [](const Json& work) { return work["work"].get<std::string>(); });
  ASSERT_NE(product, comparison["work"].end());
  EXPECT_EQ((*product)["predicted_calls"], 1);
  EXPECT_EQ((*product)["measured_calls"], 1);
}

TEST_F(CalibrateTrace, WritesBothStepsOnOneTimeline) {
  ASSERT_EQ(calibrate(kH100, {"--topology", "dgx-h100:gpus=1", "--model", kTracedModel, "--batch", "2",
                              "--recipe", "mbs2", "--trace", both()})
                .status,
            0);
  std::map<int, std::string> processes;
  std::map<int, double> first, time;
  const Json json = Json::parse(read_file(both()));
  for (const Json& event : json["traceEvents"]) {
    const int process = event["pid"].get<int>();
    if (event["name"] == "process_name") processes[process] = event["args"]["name"].get<std::string>();
    if (event["ph"] != "X" || event["cat"] == "host") continue;
    const double start = event["ts"].get<double>();
    if (!first.contains(process)) first[process] = start;
    first[process] = std::min(first[process], start);
    time[process] += event["dur"].get<double>();
  }
  EXPECT_EQ(processes,
            (std::map<int, std::string>{
                {0, "predicted: gpu0"}, {1, "measured: step 2"}, {2, "differences, the largest first"}}));
  EXPECT_EQ(first[1], 0);
  EXPECT_NEAR(time[1], 5750, 50) << "5.75 ms of kernels";
  EXPECT_GT(time[2], time[1]) << "both steps, with idle time";
}

TEST_F(CalibrateTrace, WritesConstantsThatCalibrationReads) {
  const std::vector<std::string> options{
      "--topology", "dgx-h100:gpus=1", "--model",     kTracedModel, "--batch",  "2", "--recipe",
      "mbs2",       "--runtime",       "torch-eager", "-o",         constants()};
  ASSERT_EQ(calibrate(kH100, options).status, 0);
  EXPECT_EQ(factor("host torch-eager"), 0) << "the profiler makes the host slower";
  EXPECT_GT(factor("memory"), 0.5);
  EXPECT_LT(factor("memory"), 1);
  EXPECT_GT(factor("products"), 0.5);
  std::vector<std::string> with_host = options;
  with_host.emplace_back("--keep-host");
  ASSERT_EQ(calibrate(kH100, with_host).status, 0);
  EXPECT_GT(factor("host torch-eager"), 1);
  const Outcome simulated =
      pipesim_run({"simulate", "--model", kTracedModel, "--topology", "dgx-h100:gpus=1", "--batch", "2",
                   "--recipe", "mbs2", "--runtime", "torch-eager", "--calibration", constants()});
  EXPECT_EQ(simulated.status, 0) << simulated;
}

// Kernels and collectives that take what the cost model says of other rates.
TEST_F(CalibrateTrace, RecoversRatesOfATruth) {
  const Topology topology = open_topology("dgx-a100");
  DeviceKind kind = topology.kind(DeviceId(0));
  kind.products.sustained = 1;  // a short run
  KinetoText text;
  double start = 1000;
  const auto run = [&](const std::string& op, const std::string& dims, const std::string& types,
                       double seconds) {
    for (int call = 0; call < 3; ++call) {
      text.run(op, start, 1e6 * seconds, dims, types);
      start += 1e6 * seconds + 100;
    }
  };
  for (const std::int64_t n : {2048, 4096, 8192}) {
    KernelWork work;
    work.flops = 2.0 * 4096 * 4096 * static_cast<double>(n);
    work.matrix = MatrixSize{1, 4096, n, 4096, FusedPass::None};
    const double seconds = (analytic_time(work, DataType::BFloat16, kind) - kind.launch_overhead).value;
    run("aten::mm", fmt::format("[[4096, 4096], [4096, {}]]", n), R"(["c10::BFloat16", "c10::BFloat16"])",
        seconds / 0.8);
    const double bytes = 8e4 * static_cast<double>(n);
    run("aten::gelu", fmt::format("[[{}, 20000]]", n), R"(["c10::BFloat16"])",
        bytes / (kind.memory_bandwidth.value * kind.memory_efficiency) / 0.9);
  }
  const CostModel costs(topology);
  const DeviceId devices[] = {DeviceId(0), DeviceId(1)};
  std::vector<CollectivePoint> points;
  for (const std::int64_t bytes : {4'000'000, 40'000'000, 400'000'000})
    points.push_back(
        {Bytes(bytes), 1, costs.collective_time(Collective::AllReduce, devices, Bytes(bytes)).duration});
  const auto line = fit_line(points);
  ASSERT_TRUE(line);
  for (const CollectivePoint& point : points) {
    for (int call = 0; call < 3; ++call) {
      const double seconds = 3 * line->alpha + line->beta / 0.7 * static_cast<double>(point.size.value);
      text.collective("allreduce", start, 1e6 * seconds, point.size.value / 4);
      start += 1e6 * seconds + 100;
    }
  }
  const Outcome outcome =
      calibrate(folder_.file("truth.json", text.str()), {"--topology", "dgx-a100", "-o", constants()});
  ASSERT_EQ(outcome.status, 0) << outcome;
  EXPECT_NEAR(factor("products"), 0.8, 0.01);
  EXPECT_NEAR(factor("memory"), 0.9, 0.01);
  // One collective alone: half way to what it says, as the prior has it.
  EXPECT_NEAR(factor("node links"), std::sqrt(0.7), 0.01);
  EXPECT_NEAR(factor("latency"), std::sqrt(3), 0.03);
  EXPECT_EQ(factor("attention"), 0) << "not in the trace";
}

}  // namespace
}  // namespace pipesim
