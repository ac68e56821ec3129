#include "tools/interop/traces/read_trace.h"

#include <fmt/format.h>

#include <array>
#include <filesystem>
#include <fstream>
#include <string_view>

#include "sim/base/errors.h"
#include "tools/interop/traces/trace_text.h"

namespace pipesim {
namespace {

bool is_sqlite(const std::string& path) {
  if (std::filesystem::is_directory(path)) return false;
  constexpr std::string_view kMagic{"SQLite format 3\0", 16};
  std::array<char, kMagic.size()> first{};
  std::ifstream file(path, std::ios::binary);
  file.read(first.data(), static_cast<std::streamsize>(first.size()));
  return file.gcount() == static_cast<std::streamsize>(kMagic.size()) &&
         std::string_view(first.data(), first.size()) == kMagic;
}

MeasuredTrace read_kineto_file(const std::string& path, Bytes most_text) {
  TraceText text(path, most_text);
  std::istream in(&text);
  return read_kineto(in, path);
}

}  // namespace

MeasuredTrace read_trace(const std::string& path, Bytes most_text) {
  for (const char* report : {".nsys-rep", ".qdrep"}) {
    if (path.ends_with(report))
      throw InputError(fmt::format(
          "{}: is a report of Nsight Systems, allowed: what nsys export --type sqlite writes of it", path));
  }
  MeasuredTrace trace = is_sqlite(path) ? read_nsys(path) : read_kineto_file(path, most_text);
  bool has_kernel = false;
  for (const DeviceActivity& activity : trace.activities)
    has_kernel = has_kernel || activity.work == DeviceWork::Kernel;
  if (!has_kernel)
    throw InputError(fmt::format(
        "{}: found no kernel of a device, allowed: a trace that was recorded with the GPU's activities",
        path));
  connect(trace);
  return trace;
}

}  // namespace pipesim
