#include "tools/render/page/timeline_rows.h"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <tuple>
#include <unordered_map>
#include <utility>

#include "tools/analysis/plans/task_names.h"
#include "tools/render/plans/plan_trace.h"

namespace pipesim {
namespace {

using Json = nlohmann::ordered_json;

// Collects rows, tasks and bars of one simulated part.
class RowCollector {
 public:
  RowCollector(const SimulatedPart& part, const BoundStrategy& strategy)
      : part_(part),
        names_(part, strategy),
        alike_(part_.devices_alike()),
        devices_(part.topology().num_devices()),
        number_of_(part_.dag().num_tasks(), -1) {}

  TimelineRows collect(const CriticalPath& critical) {
    rows_.end = part_.timeline().makespan;
    rows_.steady = part_.steady();
    order_tasks();
    make_rows();
    add_tasks();
    for (const CriticalStep& step : critical.steps) {
      const std::int32_t number = number_of_[step.task.index()];
      if (number >= 0) rows_.tasks[static_cast<std::size_t>(number)].critical += step.until - step.from;
    }
    return std::move(rows_);
  }

 private:
  [[nodiscard]] const TaskLabel& label(TaskId t) const { return part_.labels()[t.index()]; }

  void order_tasks() {
    for (std::size_t t = 0; t < part_.dag().num_tasks(); ++t) {
      if (label(TaskId(t)).kind != TaskKind::Barrier) order_.emplace_back(t);
    }
    std::ranges::sort(order_, {}, [&](TaskId t) { return std::pair(part_.timeline().start[t.index()], t); });
    for (std::size_t i = 0; i < order_.size(); ++i)
      number_of_[order_[i].index()] = static_cast<std::int32_t>(i);
  }

  // Lanes that are used, then hosts: those of one owner behind each other, in the order of owners' first
  // lanes.
  void make_rows() {
    const std::vector<std::string> owners = owners_of_lanes(part_);
    std::vector<Nanoseconds> busy(part_.topology().num_lanes(), 0), host(devices_, 0);
    for (const TaskId t : order_) {
      const Nanoseconds start = part_.timeline().start[t.index()];
      for (const LaneUse use : part_.dag().lanes(t))
        busy[use.lane.index()] += part_.time_spent(start, start + use.hold);
      if (label(t).kind == TaskKind::Host)
        host[label(t).device.index()] += part_.time_spent(start, part_.timeline().end[t.index()]);
    }
    std::map<std::string, std::vector<std::pair<std::size_t, bool>>>
        of_owner;  // lanes; true: the device's host
    std::vector<std::string> sequence;
    const auto add = [&](std::size_t lane, bool of_host) {
      std::vector<std::pair<std::size_t, bool>>& lanes = of_owner[owners[lane]];
      if (lanes.empty()) sequence.push_back(owners[lane]);
      lanes.emplace_back(lane, of_host);
    };
    for (std::size_t d = 0; d < devices_; ++d) {
      if (busy[d] > 0) add(d, false);
      if (host[d] > 0) add(d, true);
    }
    for (std::size_t lane = devices_; lane < busy.size(); ++lane) {
      if (busy[lane] > 0) add(lane, false);
    }
    lane_row_.assign(busy.size(), -1);
    host_row_.assign(devices_, -1);
    for (const std::string& owner : sequence) {
      for (const auto& [lane, of_host] : of_owner[owner]) {
        (of_host ? host_row_ : lane_row_)[lane] = static_cast<std::int32_t>(rows_.rows.size());
        rows_.rows.push_back(row_of(owner, lane, of_host, of_host ? host[lane] : busy[lane]));
      }
    }
  }

  [[nodiscard]] TimelineRow row_of(const std::string& owner, std::size_t lane, bool of_host,
                                   Nanoseconds busy) const {
    if (of_host) return {owner, "host", true, alike_[lane], busy};
    if (lane < devices_) return {owner, "compute", true, alike_[lane], busy};
    return {owner, part_.topology().lane_name(LaneId(lane)), false, 1, busy};
  }

  void add_tasks() {
    const Explainer explainer(part_.dag(), part_.timeline());
    std::unordered_map<std::string, std::int32_t> known;
    for (const TaskId t : order_) {
      const TaskLabel& of = label(t);
      const auto [name, is_new] =
          known.try_emplace(names_.without_microbatch(t), static_cast<std::int32_t>(known.size()));
      if (is_new) rows_.names.push_back(name->first);
      DrawnTask task;
      task.begin = part_.timeline().start[t.index()];
      task.duration = part_.timeline().end[t.index()] - task.begin;
      task.kind = of.kind;
      task.name = name->second;
      task.microbatch = of.microbatch;
      task.bytes = is_communication(of.kind) ? of.size.value : 0;
      explain_start(explainer, t, task);
      add_bars(t, task);
      rows_.tasks.push_back(task);
    }
  }

  // Barriers take no time: what they waited for counts.
  void explain_start(const Explainer& explainer, TaskId t, DrawnTask& task) const {
    Explanation why = explainer.explain(t);
    bool after_step = false;
    if (why.cause == Cause::Lane) task.queued = task.begin - why.ready;
    while (why.task.valid() && label(why.task).kind == TaskKind::Barrier) {
      why = explainer.explain(why.task);
      after_step = true;
    }
    if (!why.task.valid()) return;
    task.waited_for = number_of_[why.task.index()];
    task.cause = after_step ? DrawnCause::AfterStep
                            : (why.cause == Cause::Lane ? DrawnCause::Lane : DrawnCause::Input);
  }

  void add_bars(TaskId t, const DrawnTask& task) {
    const auto number = static_cast<std::int32_t>(rows_.tasks.size());
    for (const LaneUse use : part_.dag().lanes(t)) {
      const std::int32_t row = lane_row_[use.lane.index()];
      if (row >= 0 && use.hold > 0) rows_.bars.push_back({number, row, use.hold});
    }
    if (task.kind == TaskKind::Host && host_row_[label(t).device.index()] >= 0 && task.duration > 0)
      rows_.bars.push_back({number, host_row_[label(t).device.index()], task.duration});
  }

  SimulatedPart part_;
  TaskNames names_;
  std::vector<std::int64_t> alike_;
  std::size_t devices_;
  std::vector<TaskId> order_;            // of drawn tasks
  std::vector<std::int32_t> number_of_;  // by task: its place in the order; -1: not drawn
  std::vector<std::int32_t> lane_row_, host_row_;
  TimelineRows rows_;
};

}  // namespace

TimelineRows timeline_rows(const SimulatedPart& part, const BoundStrategy& strategy,
                           const CriticalPath& critical) {
  return RowCollector(part, strategy).collect(critical);
}

std::int64_t num_tasks_of_all(const SimulatedPart& part) {
  const std::vector<std::int64_t> alike = part.devices_alike();
  std::int64_t tasks = 0;
  for (std::size_t t = 0; t < part.dag().num_tasks(); ++t) {
    const DeviceId device = part.labels()[t].device;
    tasks += part.times(part.timeline().start[t]) *
             (device.valid() ? std::max<std::int64_t>(1, alike[device.index()]) : 1);
  }
  return tasks;
}

namespace {

template <class T, class Value>
Json task_column(const std::vector<T>& list, Value value) {
  Json json = Json::array();
  for (const T& entry : list) json.push_back(value(entry));
  return json;
}

Json windows_json(const SteadyState& steady) {
  Json list = Json::array();
  for (const SteadyWindow& w : steady.windows)
    list.push_back(
        {{"begin", w.begin}, {"end", w.end}, {"repeats", steady.repeats}, {"microbatches", w.microbatches}});
  return list;
}

Json timeline_rows_json(const std::vector<TimelineRow>& rows) {
  Json list = Json::array();
  for (const TimelineRow& r : rows) {
    list.push_back({{"owner", r.owner},
                    {"lane", r.lane},
                    {"computes", r.computes},
                    {"alike", r.alike},
                    {"busy", r.busy}});
    if (r.source != RowSource::Only)
      list.back()["source"] = r.source == RowSource::Measured ? "measured" : "predicted";
  }
  return list;
}

// Numbers that ascend, as differences, which are short.
template <class T, class Value>
Json differences_column(const std::vector<T>& list, Value value) {
  Json json = Json::array();
  std::int64_t before = 0;
  for (const T& entry : list) {
    const std::int64_t now = value(entry);
    json.push_back(now - before);
    before = now;
  }
  return json;
}

}  // namespace

nlohmann::ordered_json json_of(const TimelineRows& t) {
  const auto own = [](const DrawnTask& task) { return task.duration; };
  Json kinds = Json::array();
  for (int k = 0; k <= static_cast<int>(TaskKind::Interference); ++k)
    kinds.push_back(name_of(static_cast<TaskKind>(k)));
  std::int32_t number = -1;
  const auto steps_back = [&](const DrawnTask& task) {
    ++number;
    return task.waited_for < 0 ? 0 : number - task.waited_for;
  };
  Json tasks{{"begin_steps", differences_column(t.tasks, [](const DrawnTask& x) { return x.begin; })},
             {"duration", task_column(t.tasks, own)},
             {"kind", task_column(t.tasks, [](const DrawnTask& x) { return static_cast<int>(x.kind); })},
             {"name", task_column(t.tasks, [](const DrawnTask& x) { return x.name; })},
             {"microbatch", task_column(t.tasks, [](const DrawnTask& x) { return x.microbatch; })},
             {"bytes", task_column(t.tasks, [](const DrawnTask& x) { return x.bytes; })},
             {"waited_for_back", task_column(t.tasks, steps_back)},
             {"cause", task_column(t.tasks, [](const DrawnTask& x) { return static_cast<int>(x.cause); })},
             {"queued", task_column(t.tasks, [](const DrawnTask& x) { return x.queued; })},
             {"critical", task_column(t.tasks, [](const DrawnTask& x) { return x.critical; })}};
  const auto hold = [&](const DrawnBar& b) {
    return b.hold == t.tasks[static_cast<std::size_t>(b.task)].duration ? -1 : b.hold;
  };
  if (std::ranges::any_of(t.tasks, [](const DrawnTask& x) { return x.beside >= 0; }))
    tasks["beside"] = task_column(t.tasks, [](const DrawnTask& x) { return x.beside; });
  Json bars{{"task_steps", differences_column(t.bars, [](const DrawnBar& b) { return b.task; })},
            {"row", task_column(t.bars, [](const DrawnBar& b) { return b.row; })},
            {"hold", task_column(t.bars, hold)}};
  return {{"end", t.end},
          {"windows", windows_json(t.steady)},
          {"rows", timeline_rows_json(t.rows)},
          {"kinds", kinds},
          {"names", t.names},
          {"tasks", std::move(tasks)},
          {"bars", std::move(bars)}};
}

}  // namespace pipesim
