#include <gmock/gmock.h>

#include <algorithm>
#include <istream>
#include <map>
#include <nlohmann/json.hpp>

#include "tools/analysis/traces/trace_analysis.h"
#include "tools/interop/traces/read_trace.h"
#include "tools/interop/traces/trace_text.h"

namespace pipesim {
namespace {

using testing::SizeIs;
using Json = nlohmann::json;

// PyTorch 2.11 on an H100, two steps of a small GPT (docs/fidelity.md): what the program says of it, against
// loops over its JSON. They find a kernel's operator by "External id", the program by the time of its launch.
class H100Trace : public testing::Test {
 protected:
  H100Trace() {
    const std::string path = std::string(PIPESIM_SOURCE_DIR) + "/docs/examples/pytorch_h100.trace.json.gz";
    TraceText text(path, Bytes(100'000'000));
    std::istream in(&text);
    const Json json = Json::parse(in);
    for (const Json& event : json["traceEvents"]) events_.push_back(event);
    trace_ = read_trace(path);
    analysis_ = analyze({&trace_, 1});
  }

  [[nodiscard]] std::vector<Json> of_kind(const std::vector<std::string>& kinds) const {
    std::vector<Json> found;
    for (const Json& event : events_) {
      if (event.contains("cat") && std::ranges::count(kinds, event["cat"].get<std::string>()) > 0)
        found.push_back(event);
    }
    return found;
  }
  [[nodiscard]] const DeviceAnalysis& device() const { return analysis_.devices.front(); }

  std::vector<Json> events_;
  MeasuredTrace trace_;
  TraceAnalysis analysis_;
};

TEST_F(H100Trace, OperatorsTakeWhatTheirKernelsTake) {
  std::map<std::int64_t, std::string> names;
  for (const Json& op : of_kind({"cpu_op"}))
    names[op["args"]["External id"].get<std::int64_t>()] = op["name"].get<std::string>();
  std::map<std::string, double> expected, found;  // microseconds
  for (const Json& kernel : of_kind({"kernel"})) {
    const std::string& name = names.at(kernel["args"]["External id"].get<std::int64_t>());
    expected[name] += kernel["dur"].get<double>();
  }
  for (const OperatorTime& time : device().operators) {
    if (time.kind != WorkClass::Copies) found[time.name] += 1e6 * time.total.value;
  }
  ASSERT_EQ(found.size(), expected.size());
  for (const auto& [name, time] : expected) EXPECT_NEAR(found[name], time, 1e-3) << name;
}

TEST_F(H100Trace, StepsHaveAllThatRan) {
  const std::vector<Json> all = of_kind({"kernel", "gpu_memcpy", "gpu_memset"});
  double busy = 0;
  std::vector<double> starts;
  for (const Json& activity : all) {  // of one stream: nothing overlaps
    busy += activity["dur"].get<double>();
    starts.push_back(activity["ts"].get<double>());
  }
  std::ranges::sort(starts);
  ASSERT_THAT(device().steps, SizeIs(2));
  const StepTimes &first = device().steps[0], &second = device().steps[1];
  EXPECT_EQ(first.launches + second.launches, static_cast<std::int64_t>(all.size()));
  EXPECT_NEAR(1e6 * (first.busy + second.busy).value, busy, 1e-2);
  EXPECT_NEAR(1e6 * first.length.value, starts[all.size() / 2] - starts[0], 1e-2);
  for (const StepTimes& step : device().steps) {
    EXPECT_NEAR((step.busy + step.late_launch + step.dependencies).value, step.length.value, 1e-12);
    EXPECT_EQ(step.communication.value, 0);
  }
}

TEST_F(H100Trace, ProductsAreAsLargeAsTheirShapesSay) {
  double flops = 0, found = 0;
  std::map<std::int64_t, Json> calls;
  for (const Json& op : of_kind({"cpu_op"})) {
    const std::string name = op["name"].get<std::string>();
    if (name != "aten::mm" && name != "aten::addmm") continue;
    const Json& dims = op["args"]["Input Dims"];
    const std::size_t first = name == "aten::mm" ? 0 : 1;
    flops +=
        2.0 * dims[first][0].get<double>() * dims[first][1].get<double>() * dims[first + 1][1].get<double>();
  }
  for (const OperatorTime& time : device().operators) {
    if (time.kind == WorkClass::Products) found += time.work.flops * static_cast<double>(time.calls);
  }
  EXPECT_DOUBLE_EQ(found, flops);
  // Per token: 6 FLOPs a weight of the products (12 x 1024² in each of 2 layers, and the head), less nothing.
  EXPECT_DOUBLE_EQ(found, 2 * 2048 * 6.0 * (2 * 12 * 1024 * 1024 + 50304 * 1024));
}

TEST_F(H100Trace, GapsAreTheHosts) {
  std::map<std::int64_t, double> launched;
  for (const Json& launch : of_kind({"cuda_runtime", "cuda_driver"})) {
    if (launch["args"].contains("correlation"))
      launched[launch["args"]["correlation"].get<std::int64_t>()] =
          launch["ts"].get<double>() + launch["dur"].get<double>();
  }
  std::vector<std::pair<double, Json>> order;
  for (const Json& a : of_kind({"kernel", "gpu_memcpy", "gpu_memset"}))
    order.emplace_back(a["ts"].get<double>(), a);
  std::ranges::sort(order, {}, &std::pair<double, Json>::first);
  double end = order.front().first, idle = 0, late = 0;
  for (const auto& [start, activity] : order) {
    const double at = launched.at(activity["args"]["correlation"].get<std::int64_t>());
    if (start > end) {
      idle += start - end;
      late += start - at <= 10 ? start - end : std::max(0.0, at - end);
    }
    end = std::max(end, start + activity["dur"].get<double>());
  }
  const StepTimes &first = device().steps[0], &second = device().steps[1];
  EXPECT_NEAR(1e6 * (first.late_launch + second.late_launch).value, late, 0.1);
  EXPECT_NEAR(1e6 * (first.dependencies + second.dependencies).value, idle - late, 0.1);
  EXPECT_GT(late, 0.9 * idle) << "a small model is bound by its host";
}

}  // namespace
}  // namespace pipesim
