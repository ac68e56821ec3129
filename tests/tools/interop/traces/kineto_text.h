#pragma once

#include <fmt/format.h>

#include <sstream>
#include <string>
#include <string_view>

#include "tools/interop/traces/read_trace.h"

namespace pipesim {

/// The text of a small trace as PyTorch's profiler writes it. Times are microseconds.
class KinetoText {
 public:
  KinetoText& kernel(std::string_view name, double start, double duration, int correlation, int stream = 7,
                     const std::string& more = "") {
    return event("kernel", name, start, duration,
                 fmt::format(R"("device":0,"stream":{},"correlation":{}{})", stream, correlation, more));
  }
  /// A kernel of NCCL that says what it does; float32.
  KinetoText& collective(std::string_view name, double start, double duration, std::int64_t elements,
                         const std::string& ranks = "[0, 1]", int correlation = 9999) {
    return kernel(
        "ncclDevKernel_X", start, duration, correlation, 20,
        fmt::format(R"(,"Collective name":"{}","In msg nelems":{},"Out msg nelems":{},"Group size":2,)"
                    R"("dtype":"Float","Process Group Name":"0","Process Group Ranks":"{}")",
                    name, elements, elements, ranks));
  }
  KinetoText& launch(double start, double duration, int correlation, int thread = 1) {
    return event("cuda_runtime", "cudaLaunchKernel", start, duration,
                 fmt::format(R"("correlation":{})", correlation), thread);
  }
  /// `dims`, `types`: JSON lists; "": shapes were not recorded.
  KinetoText& op(std::string_view name, double start, double duration, const std::string& dims = "",
                 const std::string& types = "", int thread = 1, const std::string& values = "[]") {
    return event("cpu_op", name, start, duration,
                 dims.empty() ? ""
                              : fmt::format(R"("Input Dims":{},"Input type":{},"Concrete Inputs":{})", dims,
                                            types, values),
                 thread);
  }
  KinetoText& range(std::string_view name, double start, double duration) {
    return event("user_annotation", name, start, duration, "");
  }
  /// An operator with one kernel, launched just before that.
  KinetoText& run(std::string_view name, double start, double duration, const std::string& dims = "",
                  const std::string& types = "", int stream = 7) {
    ++last_;
    op(name, start - 3, 2, dims, types);
    launch(start - 2.5, 1, last_);
    return kernel(fmt::format("kernel of {}", name), start, duration, last_, stream);
  }
  KinetoText& event(std::string_view category, std::string_view name, double start, double duration,
                    const std::string& args, int thread = 1) {
    events_ += fmt::format(
        R"({}{{"ph":"X","cat":"{}","name":"{}","pid":5,"tid":{},"ts":{},"dur":{},"args":{{{}}}}})",
        events_.empty() ? "" : ",\n", category, name, thread, start, duration, args);
    return *this;
  }
  KinetoText& rank(int rank) {
    rank_ = fmt::format(
        R"("distributedInfo":{{"backend":"nccl","rank":{},"pg_config":[{{"pg_name":"0"}}]}},)", rank);
    return *this;
  }

  [[nodiscard]] std::string str() const {
    return fmt::format(
        R"({{"schemaVersion":1,{}"deviceProperties":[{{"id":0,"name":"A GPU"}}],"traceEvents":[{}]}})", rank_,
        events_);
  }
  [[nodiscard]] MeasuredTrace read() const {
    std::istringstream text(str());
    MeasuredTrace trace = read_kineto(text, "small.json");
    connect(trace);
    return trace;
  }

 private:
  std::string events_, rank_;
  int last_ = 0;
};

}  // namespace pipesim
