#include "tools/interop/traces/read_trace.h"

#include <gmock/gmock.h>

#include "tests/refusal.h"
#include "tests/temporary_folder.h"
#include "tests/tools/interop/traces/kineto_text.h"

namespace pipesim {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

// PyTorch 2.11 on an H100, two steps of a small GPT (docs/fidelity.md).
const std::string kRecorded = std::string(PIPESIM_SOURCE_DIR) + "/docs/examples/pytorch_h100.trace.json.gz";

std::string refused_text(const std::string& text) {
  const TemporaryFolder folder;
  const std::string path = folder.file("t.json", text);
  std::string message = refusal([&] { (void)read_trace(path); });
  return message.starts_with(path) ? message.substr(path.size()) : message;
}

TEST(ReadTrace, TiesKernelsToLaunchesAndTheInnermostOperator) {
  const MeasuredTrace trace = KinetoText()
                                  .op("aten::linear", 10, 20, "[[4, 8], [2, 8]]", R"(["float", "float"])")
                                  .op("aten::mm", 12, 10, "[[4, 8], [8, 2]]", R"(["float", "float"])")
                                  .launch(13, 2, 1)
                                  .op("aten::mul", 12, 10, "", "", 2)
                                  .kernel("gemm", 40.25, 5, 1)
                                  .kernel("alone", 30, 5, 77)
                                  .read();
  EXPECT_THAT(trace.device_names, ElementsAre("A GPU"));
  ASSERT_EQ(trace.activities.size(), 2U);
  EXPECT_EQ(trace.name(trace.activities[0].name), "alone") << "by start";
  EXPECT_EQ(trace.operator_of(trace.activities[0]), nullptr);
  EXPECT_EQ(trace.activities[1].start, 40250);
  EXPECT_EQ(trace.activities[1].end(), 45250);
  const TracedOperator* op = trace.operator_of(trace.activities[1]);
  ASSERT_NE(op, nullptr);
  EXPECT_EQ(trace.name(op->name), "aten::mm");
  ASSERT_GE(op->parent, 0);
  EXPECT_EQ(trace.name(trace.operators[static_cast<std::size_t>(op->parent)].name), "aten::linear");
  EXPECT_THAT(trace.calls[static_cast<std::size_t>(op->call)].inputs,
              ElementsAre(TracedInput{"float", {{4, 8}}}, TracedInput{"float", {{8, 2}}}));
}

TEST(ReadTrace, ReadsListsOfTensorsAndScalars) {
  const MeasuredTrace trace = KinetoText()
                                  .op("aten::cat", 0, 9, "[[[2, 3], [4]], []]", R"(["TensorList", "Scalar"])")
                                  .op("aten::fill_", 0, 9, "[[], []]", R"(["float", "Scalar"])")
                                  .op("aten::x", 0, 9, "[[5], [6]]", R"([["float", "int"], "long int"])")
                                  .kernel("k", 1, 1, 1)
                                  .read();
  EXPECT_THAT(trace.calls[0].inputs,
              ElementsAre(TracedInput{"TensorList", {{2, 3}, {4}}}, TracedInput{"Scalar", {{}}}));
  EXPECT_THAT(trace.calls[1].inputs, ElementsAre(TracedInput{"float", {{}}}, TracedInput{"Scalar", {{}}}));
  EXPECT_EQ(trace.calls[2].inputs[1], (TracedInput{"long int", {{6}}})) << "behind a list of types";
}

TEST(ReadTrace, KeepsNanosecondsOfTimesSince1970) {
  const std::string text =
      R"({"baseTimeNanoseconds": 5, "traceEvents": [{"ph": "X", "cat": "kernel", "name": "k", "pid": 0, "tid": 7,
          "ts": 1707417525512145.123, "dur": 1.5, "args": {"device": 0, "stream": 7, "correlation": 1}}]})";
  std::istringstream in(text);
  const MeasuredTrace trace = read_kineto(in, "t.json");
  EXPECT_EQ(trace.activities.front().start, 1'707'417'525'512'145'128);
  EXPECT_EQ(trace.activities.front().duration, 1500);
}

TEST(ReadTrace, ReadsCompressedFilesWhateverTheirName) {
  const TemporaryFolder folder;
  const MeasuredTrace trace = read_trace(folder.file("trace.txt", read_file(kRecorded)));
  EXPECT_EQ(trace.activities.size(), 314U);
  EXPECT_THAT(trace.device_names, ElementsAre("NVIDIA H100 80GB HBM3"));
}

TEST(ReadTrace, RefusesDamagedCompression) {
  const TemporaryFolder folder;
  const std::string whole = read_file(kRecorded);
  const std::string cut = folder.file("cut.json.gz", whole.substr(0, whole.size() / 2));
  EXPECT_EQ(refusal([&] { (void)read_trace(cut); }),
            cut + ": the compressed data ends too early, allowed: a whole gzip file");
  const std::string tail = folder.file("tail.json.gz", whole.substr(0, whole.size() - 3));
  EXPECT_EQ(refusal([&] { (void)read_trace(tail); }),
            tail + ": the compressed data ends too early, allowed: a whole gzip file");
  std::string changed = whole;
  changed[changed.size() - 6] = static_cast<char>(changed[changed.size() - 6] + 1);  // of the CRC
  const std::string damaged = folder.file("damaged.json.gz", changed);
  EXPECT_EQ(refusal([&] { (void)read_trace(damaged); }),
            damaged + ": the compressed data is damaged, allowed: a whole gzip file");
  const std::string head = folder.file("head.gz", whole.substr(0, 5));
  EXPECT_THAT(refusal([&] { (void)read_trace(head); }), HasSubstr("ends too early"));
}

TEST(ReadTrace, RefusesMoreTextThanAllowed) {
  EXPECT_EQ(refusal([] { (void)read_trace(kRecorded, Bytes(500'000)); }),
            kRecorded + ": has more than 500 kB of text, allowed: at most that much");
  EXPECT_EQ(refusal([] { (void)read_trace(kRecorded, Bytes(1'204'267)); }), "accepted");
  EXPECT_THAT(refusal([] { (void)read_trace(kRecorded, Bytes(1'204'266)); }), HasSubstr("has more than"));
}

TEST(ReadTrace, RefusesWhatIsNoTrace) {
  const TemporaryFolder folder;
  EXPECT_EQ(refusal([&] { (void)read_trace(folder.path()); }),
            folder.path() + ": is a directory, allowed: a trace");
  EXPECT_EQ(refusal([&] { (void)read_trace(folder.path("none")); }), folder.path("none") + ": can't be read");
  EXPECT_THAT(refused_text(""), HasSubstr("not valid JSON"));
  EXPECT_THAT(refused_text("name,model\n"), HasSubstr(":1:2: not valid JSON: syntax error"));
  EXPECT_THAT(refused_text(R"({"traceEvents": [)"), HasSubstr("not valid JSON"));
  EXPECT_EQ(refused_text("[]"), refused_text("{}"));
  EXPECT_EQ(refused_text(R"({"events": []})"),
            ": \"traceEvents\" is missing, allowed: a trace of PyTorch's profiler or of nsys export --type "
            "sqlite");
  EXPECT_EQ(refused_text(R"({"traceEvents": []})"),
            ": found no kernel of a device, allowed: a trace that was recorded with the GPU's activities");
  EXPECT_THAT(refused_text(std::string(100'000, '[')), HasSubstr("not valid JSON"));
}

TEST(ReadTrace, RefusesEventsWithoutWhatTheyNeed) {
  const auto with = [](const std::string& times, const std::string& args) {
    return refused_text(
        fmt::format(R"({{"traceEvents": [{{"ph": "M"}}, {{"ph": "X", "cat": "kernel", "name": "gemm",
        "pid": 0, "tid": 7, {} "args": {{{}}}}}]}})",
                    times, args));
  };
  const std::string args = R"("device": 0, "stream": 7, "correlation": 1)";
  const std::string place = ": /traceEvents/1 (kernel \"gemm\"): ";
  EXPECT_EQ(with(R"("ts": 5, "dur": 1,)", args), "accepted");
  EXPECT_EQ(with(R"("ts": 5, "dur": -3,)", args), place + "\"dur\" is -3 us, allowed: 0 or more");
  EXPECT_EQ(with(R"("ts": -0.5, "dur": 3,)", args), place + "\"ts\" is -0.5 us, allowed: 0 or more");
  EXPECT_EQ(with(R"("ts": 5,)", args), place + "\"dur\" is missing, allowed: a time in microseconds");
  EXPECT_EQ(with(R"("ts": "5", "dur": 3,)", args),
            place + "\"ts\" is missing, allowed: a time in microseconds");
  EXPECT_EQ(with(R"("ts": 5, "dur": 1,)", R"("device": 0, "stream": 7)"),
            place + "\"args\" has no \"correlation\", allowed: a number from 0 on");
  EXPECT_THAT(with(R"("ts": 1e300, "dur": 1,)", args), HasSubstr("allowed: microseconds below 3e15"));
}

}  // namespace
}  // namespace pipesim
