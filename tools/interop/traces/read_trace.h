#pragma once

#include <istream>
#include <string>

#include "sim/base/units.h"
#include "tools/analysis/traces/measured_trace.h"

namespace pipesim {

/// More text than this is refused. It is some 10 million events, and takes about a fifth of that memory.
inline constexpr Bytes max_trace_text{4'000'000'000};

/// Reads a trace, connected (see connect()): JSON of PyTorch's profiler (Kineto), plain or compressed by
/// gzip, or the SQLite file of `nsys export --type sqlite`. The kind is found in the file, not in its name.
/// InputError with one line: a file that can't be read, damaged compression or JSON, no `traceEvents`, an
/// event without a field that it needs, a time below 0, a database without a table that it needs, no kernel.
MeasuredTrace read_trace(const std::string& path, Bytes most_text = max_trace_text);

/// JSON of Kineto. Times are microseconds in the file; `baseTimeNanoseconds` is added. `file`: for messages.
MeasuredTrace read_kineto(std::istream& text, const std::string& file);

/// The tables StringIds and CUPTI_ACTIVITY_KIND_KERNEL or …_GRAPH_TRACE, and where they are there: …_RUNTIME,
/// …_DRIVER, …_MEMCPY, …_MEMSET, NVTX_EVENTS, TARGET_INFO_GPU, TARGET_INFO_CUDA_DEVICE (NVIDIA, Nsight
/// Systems User Guide, "SQLite Schema Reference"). NVTX ranges stand for operators, without shapes. A graph
/// that was not recorded node by node is one kernel.
MeasuredTrace read_nsys(const std::string& path);

}  // namespace pipesim
