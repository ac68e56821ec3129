#include "sim/trace.h"

#include <fmt/format.h>

#include <map>
#include <nlohmann/json.hpp>
#include <string_view>

#include "sim/base/errors.h"

namespace pipesim {
namespace {

std::string quoted(const std::string& text) {
  using Json = nlohmann::json;
  return Json(text).dump(-1, ' ', false, Json::error_handler_t::replace);
}

std::string microseconds(Nanoseconds ns) { return fmt::format("{}.{:03}", ns / 1000, ns % 1000); }

/// The label, or "NAME ID" where there is none.
template <class Id>
std::string label(const std::function<std::string(Id)>& name, Id id, std::string_view otherwise) {
  return name ? name(id) : fmt::format("{} {}", otherwise, id.value);
}

class TraceWriter {
 public:
  TraceWriter(std::ostream& out, const TaskDag& dag, const Timeline& timeline, const TraceLabels& labels)
      : out_(out), dag_(dag), timeline_(timeline), labels_(labels) {}

  void write() {
    out_ << R"({"displayTimeUnit":"ns","traceEvents":[)";
    write_lanes();
    for (std::size_t i = 0; i < dag_.num_tasks(); ++i) write_task(TaskId(i));
    if (labels_.is_flow) {
      for (std::size_t i = 0; i < dag_.num_tasks(); ++i) write_flows(TaskId(i));
    }
    out_ << "\n]}\n";
    if (!out_) throw InputError("the trace could not be written");
  }

 private:
  void write_event(std::string_view event) {
    out_ << (first_ ? "\n" : ",\n") << event;
    first_ = false;
  }

  void write_metadata(std::string_view what, std::size_t pid, std::size_t tid, std::string_view args) {
    write_event(
        fmt::format(R"({{"ph":"M","name":"{}","pid":{},"tid":{},"args":{{{}}}}})", what, pid, tid, args));
  }

  void write_lanes() {
    std::map<std::string, std::size_t> pids;
    for (std::size_t tid = 0; tid < dag_.num_lanes(); ++tid) {
      const LaneId lane(tid);
      const std::string process = label(labels_.process, lane, "process");
      const auto [found, is_new] = pids.try_emplace(process, pids.size());
      const std::size_t pid = found->second;
      pid_.push_back(pid);
      if (is_new) {
        write_metadata("process_name", pid, tid, fmt::format(R"("name":{})", quoted(process)));
        write_metadata("process_sort_index", pid, tid, fmt::format(R"("sort_index":{})", pid));
      }
      write_metadata("thread_name", pid, tid,
                     fmt::format(R"("name":{})", quoted(label(labels_.thread, lane, "lane"))));
      write_metadata("thread_sort_index", pid, tid, fmt::format(R"("sort_index":{})", tid));
    }
  }

  [[nodiscard]] std::string place(LaneId lane, Nanoseconds time) const {
    return fmt::format(R"("pid":{},"tid":{},"ts":{})", pid_[lane.index()], lane.value, microseconds(time));
  }

  [[nodiscard]] std::string args(TaskId task) const {
    if (!labels_.args) return "";
    std::string text;
    for (const auto& [name, value] : labels_.args(task)) {
      text += fmt::format("{}{}:{}", text.empty() ? "" : ",", quoted(name), quoted(value));
    }
    return text;
  }

  void write_task(TaskId task) {
    if (dag_.lanes(task).empty()) return;
    std::string head = fmt::format(R"("ph":"X","name":{})", quoted(label(labels_.task, task, "task")));
    if (labels_.category) head += fmt::format(R"(,"cat":{})", quoted(labels_.category(task)));
    const std::string tail = fmt::format(R"("args":{{{}}})", args(task));
    const Nanoseconds start = timeline_.start[task.index()];
    for (const LaneUse use : dag_.lanes(task)) {
      write_event(fmt::format(R"({{{},{},"dur":{},{}}})", head, place(use.lane, start),
                              microseconds(use.hold), tail));
    }
  }

  void write_flows(TaskId task) {
    for (const TaskId next : dag_.successors(task)) {
      if (dag_.lanes(task).empty() || dag_.lanes(next).empty() || !labels_.is_flow(task, next)) continue;
      write_flow_end("s", task, "");
      write_flow_end("f", next, R"(,"bp":"e")");
      ++flows_;
    }
  }

  // Viewers tie an end to the slice that covers its time: that of the task's start is always inside.
  void write_flow_end(std::string_view phase, TaskId task, std::string_view binding) {
    write_event(fmt::format(R"({{"ph":"{}","id":{},"name":"transfer","cat":"transfer",{}{}}})", phase, flows_,
                            place(dag_.lanes(task)[0].lane, timeline_.start[task.index()]), binding));
  }

  std::ostream& out_;
  const TaskDag& dag_;
  const Timeline& timeline_;
  const TraceLabels& labels_;
  std::vector<std::size_t> pid_;  ///< by lane
  std::size_t flows_ = 0;
  bool first_ = true;
};

}  // namespace

void write_trace(std::ostream& out, const TaskDag& dag, const Timeline& timeline, const TraceLabels& labels) {
  TraceWriter(out, dag, timeline, labels).write();
}

void write_trace(std::ostream& out, const std::vector<TraceTrack>& tracks,
                 const std::vector<TraceSlice>& slices) {
  out << R"({"displayTimeUnit":"ns","traceEvents":[)";
  std::vector<std::size_t> pids;
  const char* separator = "\n";
  const auto metadata = [&](std::string_view what, std::size_t tid, std::string_view args) {
    out << separator
        << fmt::format(R"({{"ph":"M","name":"{}","pid":{},"tid":{},"args":{{{}}}}})", what, pids[tid], tid,
                       args);
    separator = ",\n";
  };
  for (std::size_t t = 0; t < tracks.size(); ++t) {
    const bool fresh = t == 0 || tracks[t].process != tracks[t - 1].process;
    pids.push_back(t == 0 ? 0 : pids.back() + (fresh ? 1 : 0));
    if (fresh) metadata("process_name", t, fmt::format(R"("name":{})", quoted(tracks[t].process)));
    if (fresh) metadata("process_sort_index", t, fmt::format(R"("sort_index":{})", pids[t]));
    metadata("thread_name", t, fmt::format(R"("name":{})", quoted(tracks[t].thread)));
    metadata("thread_sort_index", t, fmt::format(R"("sort_index":{})", t));
  }
  for (const TraceSlice& s : slices) {
    out << separator
        << fmt::format(R"({{"ph":"X","name":{},"cat":{},"pid":{},"tid":{},"ts":{},"dur":{}}})",
                       quoted(s.name), quoted(s.category), pids[s.track], s.track, microseconds(s.start),
                       microseconds(s.duration));
    separator = ",\n";
  }
  out << "\n]}\n";
  if (!out) throw InputError("the trace could not be written");
}

}  // namespace pipesim
