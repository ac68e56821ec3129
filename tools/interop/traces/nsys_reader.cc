#include <fmt/format.h>

#include "costmodel/database.h"
#include "sim/base/errors.h"
#include "tools/interop/traces/read_trace.h"

namespace pipesim {
namespace {

constexpr std::int64_t kPidPart = 0x1000000;  // a globalTid is hardware, VM, process and thread, 24 bits each

std::int64_t process_of(std::int64_t global) { return global / kPidPart % kPidPart; }

// Makes a correlation number unique, as each process counts its own.
std::int64_t of_process(std::int64_t correlation, std::int64_t global) {
  return process_of(global) << 32 | (correlation & 0xffffffff);
}

constexpr const char* kKernels = "CUPTI_ACTIVITY_KIND_KERNEL";
constexpr const char* kGraphs = "CUPTI_ACTIVITY_KIND_GRAPH_TRACE";

class NsysReader {
 public:
  explicit NsysReader(const std::string& path)
      : file_(path, Database::Mode::Read, path), names_(trace_.names) {
    trace_.file = path;
  }

  MeasuredTrace read() {
    require("StringIds", has("StringIds"));
    require(kKernels, has(kKernels) || has(kGraphs));
    add_devices();
    add_activities(DeviceWork::Kernel, kKernels, kernel_name());
    // Graphs that were not recorded node by node.
    add_activities(DeviceWork::Kernel, kGraphs, "'CUDA graph'");
    add_activities(DeviceWork::Copy, "CUPTI_ACTIVITY_KIND_MEMCPY", "'Memcpy'");
    add_activities(DeviceWork::Fill, "CUPTI_ACTIVITY_KIND_MEMSET", "'Memset'");
    for (const char* table : {"CUPTI_ACTIVITY_KIND_RUNTIME", "CUPTI_ACTIVITY_KIND_DRIVER"}) {
      if (has(table)) add_launches(table);
    }
    if (has("NVTX_EVENTS")) add_ranges();
    return std::move(trace_);
  }

 private:
  bool has(const char* table) {
    Statement statement(file_,
                        "SELECT count(*) FROM sqlite_master WHERE type IN ('table', 'view') AND name = ?");
    statement.bind(std::string_view(table));
    return statement.next() && statement.integer() > 0;
  }

  void require(const char* table, bool there) const {
    if (!there)
      throw InputError(fmt::format(
          "{}: table {} is missing, allowed: what nsys export --type sqlite writes of a run with kernels",
          file_.path(), table));
  }

  bool has(const char* table, const char* column) {
    Statement statement(file_, "SELECT count(*) FROM pragma_table_info(?) WHERE name = ?");
    statement.bind(std::string_view(table)).bind(std::string_view(column));
    return statement.next() && statement.integer() > 0;
  }

  // A column, or what stands for it, as versions of nsys differ in their columns.
  std::string column(const char* table, const char* name, const char* otherwise) {
    return has(table, name) ? fmt::format("t.{}", name) : otherwise;
  }
  std::string column(const char* table, const char* name) {
    if (!has(table, name))
      throw InputError(
          fmt::format("{}: table {} has no column \"{}\", allowed: what nsys export --type sqlite writes",
                      file_.path(), table, name));
    return fmt::format("t.{}", name);
  }

  std::string kernel_name() {
    std::string names;
    for (const char* name : {"demangledName", "shortName", "mangledName"}) {
      if (has(kKernels, name)) names += fmt::format("(SELECT value FROM StringIds WHERE id = t.{}), ", name);
    }
    return fmt::format("coalesce({}'', '')", names);
  }

  [[nodiscard]] Nanoseconds time_at(const char* table, std::int64_t row, const char* column, Nanoseconds time,
                                    Nanoseconds least) const {
    if (time < least)
      throw InputError(fmt::format("{}: {}: row {}: \"{}\" is {}, allowed: {} or more", file_.path(), table,
                                   row, column, time, least));
    return time;
  }

  void add_activities(DeviceWork work, const char* table, const std::string& name) {
    if (!has(table)) return;
    Statement rows(
        file_, fmt::format("SELECT {}, {}, {}, {}, {}, {}, {}, t.rowid FROM {} t ORDER BY t.start", name,
                           column(table, "deviceId"), column(table, "streamId", "0"), column(table, "start"),
                           column(table, "end"), column(table, "correlationId", "0"),
                           column(table, "globalPid", "0"), table));
    while (rows.next()) {
      DeviceActivity activity;
      activity.work = work;
      activity.name = names_.number_of(rows.text());
      const std::int64_t device = rows.integer();
      activity.stream = rows.integer();
      const Nanoseconds start = rows.integer(), end = rows.integer();
      const std::int64_t correlation = rows.integer(), process = rows.integer(), row = rows.integer();
      activity.start = time_at(table, row, "start", start, 0);
      activity.duration = time_at(table, row, "end", end, start) - start;
      activity.correlation = of_process(correlation, process);
      if (device < 0 || device > kMostDevices)
        throw InputError(fmt::format("{}: {}: row {}: \"deviceId\" is {}, allowed: 0 to {}", file_.path(),
                                     table, row, device, kMostDevices));
      activity.device = device_of(process_of(process), device);
      trace_.activities.push_back(activity);
    }
  }

  void add_launches(const char* table) {
    if (!has(table, "correlationId")) return;
    Statement rows(
        file_,
        fmt::format("SELECT {}, {}, {}, t.correlationId, t.rowid FROM {} t ORDER BY t.start",
                    column(table, "start"), column(table, "end"), column(table, "globalTid", "0"), table));
    while (rows.next()) {
      const Nanoseconds start = rows.integer(), end = rows.integer();
      const std::int64_t global = rows.integer(), correlation = rows.integer(), row = rows.integer();
      trace_.launches.push_back({thread_of(global), -1, time_at(table, row, "start", start, 0),
                                 time_at(table, row, "end", end, start), of_process(correlation, global)});
    }
  }

  // Adds the ranges that threads push and pop, or start and end (event types 59 and 60).
  void add_ranges() {
    const char* table = "NVTX_EVENTS";
    const std::string type = column(table, "eventType", "59");
    Statement rows(
        file_,
        fmt::format("SELECT coalesce({}, (SELECT value FROM StringIds WHERE id = {}), ''), {}, {}, {}, "
                    "{}, t.rowid FROM {} t WHERE {} IN (59, 60) AND t.end IS NOT NULL ORDER BY t.start",
                    column(table, "text", "NULL"), column(table, "textId", "NULL"), column(table, "start"),
                    column(table, "end"), column(table, "globalTid", "0"), type, table, type));
    while (rows.next()) {
      std::string text = rows.text();
      const Nanoseconds start = rows.integer(), end = rows.integer();
      const std::int64_t global = rows.integer(), kind = rows.integer(), row = rows.integer();
      static_cast<void>(time_at(table, row, "start", start, 0));
      static_cast<void>(time_at(table, row, "end", end, start));
      if (text.empty()) continue;
      trace_.ranges.push_back({names_.number_of(text), start, end});
      if (kind != 59) continue;  // these alone are nested as calls are
      // PyTorch's emit_nvtx() writes "aten::mm, op_id = 7"; what differs from call to call is cut off.
      text = text.substr(0, text.find(", "));
      trace_.operators.push_back({names_.number_of(text), -1, thread_of(global), -1, start, end});
    }
  }

  // Each process counts the devices that it sees from 0; the table of its devices says which those are.
  void add_devices() {
    constexpr const char* gpus = "TARGET_INFO_GPU";
    constexpr const char* seen = "TARGET_INFO_CUDA_DEVICE";
    if (has(gpus) && has(gpus, "id") && has(gpus, "name")) {
      Statement rows(file_, "SELECT id, coalesce(name, '') FROM TARGET_INFO_GPU");
      while (rows.next()) {
        const std::int64_t id = rows.integer();
        std::string name = rows.text();
        if (id < 0 || id > kMostDevices) continue;
        if (trace_.device_names.size() <= static_cast<std::size_t>(id))
          trace_.device_names.resize(static_cast<std::size_t>(id) + 1);
        trace_.device_names[static_cast<std::size_t>(id)] = std::move(name);
      }
    }
    if (!has(seen) || !has(seen, "gpuId") || !has(seen, "cudaId") || !has(seen, "pid")) return;
    Statement rows(file_, "SELECT pid, cudaId, gpuId FROM TARGET_INFO_CUDA_DEVICE");
    while (rows.next()) {
      const std::int64_t process = rows.integer(), number = rows.integer(), gpu = rows.integer();
      if (gpu >= 0 && gpu <= kMostDevices) devices_[{process, number}] = static_cast<std::int32_t>(gpu);
    }
  }

  [[nodiscard]] std::int32_t device_of(std::int64_t process, std::int64_t number) const {
    const auto found = devices_.find({process, number});
    return found == devices_.end() ? static_cast<std::int32_t>(number) : found->second;
  }

  std::int32_t thread_of(std::int64_t global) {
    return threads_.try_emplace(global, static_cast<std::int32_t>(threads_.size())).first->second;
  }

  static constexpr std::int64_t kMostDevices = 4096;

  Database file_;
  MeasuredTrace trace_;
  NameTable names_;
  std::map<std::int64_t, std::int32_t> threads_;
  std::map<std::pair<std::int64_t, std::int64_t>, std::int32_t> devices_;  // by process and its number
};

}  // namespace

MeasuredTrace read_nsys(const std::string& path) { return NsysReader(path).read(); }

}  // namespace pipesim
