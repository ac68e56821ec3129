#include <fmt/format.h>

#include "costmodel/database.h"
#include "sim/base/errors.h"
#include "tools/interop/traces/read_trace.h"

namespace pipesim {
namespace {

constexpr std::int64_t kPidPart = 0x1000000;  // a globalTid is hardware, VM, process and thread, 24 bits each

// Makes a correlation number unique, as each process counts its own.
std::int64_t of_process(std::int64_t correlation, std::int64_t global) {
  const std::int64_t process = global / kPidPart % kPidPart;
  return process << 32 | (correlation & 0xffffffff);
}

class NsysReader {
 public:
  explicit NsysReader(const std::string& path)
      : file_(path, Database::Mode::Read, path), names_(trace_.names) {
    trace_.file = path;
  }

  MeasuredTrace read() {
    for (const char* table : {"StringIds", "CUPTI_ACTIVITY_KIND_KERNEL"}) {
      if (!has(table))
        throw InputError(fmt::format(
            "{}: table {} is missing, allowed: what nsys export --type sqlite writes of a run with "
            "kernels",
            file_.path(), table));
    }
    const std::string name = "coalesce((SELECT value FROM StringIds WHERE id = t.{}), '')";
    add_activities(DeviceWork::Kernel, "CUPTI_ACTIVITY_KIND_KERNEL",
                   fmt::format(fmt::runtime(name), "demangledName"));
    add_activities(DeviceWork::Copy, "CUPTI_ACTIVITY_KIND_MEMCPY", "'Memcpy'");
    add_activities(DeviceWork::Fill, "CUPTI_ACTIVITY_KIND_MEMSET", "'Memset'");
    if (has("CUPTI_ACTIVITY_KIND_RUNTIME")) add_launches();
    if (has("NVTX_EVENTS")) add_ranges();
    if (has("TARGET_INFO_GPU")) add_devices();
    return std::move(trace_);
  }

 private:
  bool has(const char* table) {
    Statement statement(file_,
                        "SELECT count(*) FROM sqlite_master WHERE type IN ('table', 'view') AND name = ?");
    statement.bind(std::string_view(table));
    return statement.next() && statement.integer() > 0;
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
    Statement rows(file_,
                   fmt::format("SELECT {}, deviceId, streamId, start, end, correlationId, globalPid, rowid "
                               "FROM {} t ORDER BY start",
                               name, table));
    while (rows.next()) {
      DeviceActivity activity;
      activity.work = work;
      activity.name = names_.number_of(rows.text());
      activity.device = static_cast<std::int32_t>(rows.integer());
      activity.stream = rows.integer();
      const Nanoseconds start = rows.integer(), end = rows.integer();
      const std::int64_t correlation = rows.integer(), process = rows.integer(), row = rows.integer();
      activity.start = time_at(table, row, "start", start, 0);
      activity.duration = time_at(table, row, "end", end, start) - start;
      activity.correlation = of_process(correlation, process);
      if (activity.device < 0)
        throw InputError(fmt::format("{}: {}: row {}: \"deviceId\" is {}, allowed: 0 or more", file_.path(),
                                     table, row, activity.device));
      trace_.activities.push_back(activity);
    }
  }

  void add_launches() {
    Statement rows(file_,
                   "SELECT start, end, globalTid, correlationId, rowid FROM CUPTI_ACTIVITY_KIND_RUNTIME "
                   "ORDER BY start");
    while (rows.next()) {
      const Nanoseconds start = rows.integer(), end = rows.integer();
      const std::int64_t global = rows.integer(), correlation = rows.integer(), row = rows.integer();
      const char* table = "CUPTI_ACTIVITY_KIND_RUNTIME";
      trace_.launches.push_back({thread_of(global), -1, time_at(table, row, "start", start, 0),
                                 time_at(table, row, "end", end, start), of_process(correlation, global)});
    }
  }

  // Adds the ranges that threads push and pop, or start and end (event types 59 and 60).
  void add_ranges() {
    Statement rows(
        file_,
        "SELECT coalesce(t.text, (SELECT value FROM StringIds WHERE id = t.textId), ''), t.start, "
        "t.end, t.globalTid, t.eventType, t.rowid FROM NVTX_EVENTS t WHERE t.eventType IN (59, 60) AND "
        "t.end IS NOT NULL ORDER BY t.start");
    while (rows.next()) {
      std::string text = rows.text();
      const Nanoseconds start = rows.integer(), end = rows.integer();
      const std::int64_t global = rows.integer(), type = rows.integer(), row = rows.integer();
      static_cast<void>(time_at("NVTX_EVENTS", row, "start", start, 0));
      static_cast<void>(time_at("NVTX_EVENTS", row, "end", end, start));
      if (text.empty()) continue;
      trace_.ranges.push_back({names_.number_of(text), start, end});
      if (type != 59) continue;  // these alone are nested as calls are
      // PyTorch's emit_nvtx() writes "aten::mm, op_id = 7"; what differs from call to call is cut off.
      text = text.substr(0, text.find(", "));
      trace_.operators.push_back({names_.number_of(text), -1, thread_of(global), -1, start, end});
    }
  }

  void add_devices() {
    Statement rows(file_, "SELECT id, name FROM TARGET_INFO_GPU");
    while (rows.next()) {
      const std::int64_t id = rows.integer();
      std::string name = rows.text();
      if (id < 0 || id > 4096) continue;
      if (trace_.device_names.size() <= static_cast<std::size_t>(id))
        trace_.device_names.resize(static_cast<std::size_t>(id) + 1);
      trace_.device_names[static_cast<std::size_t>(id)] = std::move(name);
    }
  }

  std::int32_t thread_of(std::int64_t global) {
    return threads_.try_emplace(global, static_cast<std::int32_t>(threads_.size())).first->second;
  }

  Database file_;
  MeasuredTrace trace_;
  NameTable names_;
  std::map<std::int64_t, std::int32_t> threads_;
};

}  // namespace

MeasuredTrace read_nsys(const std::string& path) { return NsysReader(path).read(); }

}  // namespace pipesim
