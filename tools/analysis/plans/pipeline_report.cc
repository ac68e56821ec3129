#include "tools/analysis/plans/pipeline_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <set>

#include "tools/analysis/plans/plan_report.h"
#include "tools/base/figures.h"

namespace pipesim {
namespace {

char mark_of(TaskKind kind, bool weights_apart) {
  if (is_communication(kind)) return '-';
  if (kind == TaskKind::Forward) return 'F';
  if (kind == TaskKind::Recompute) return 'R';
  if (kind == TaskKind::Update) return 'U';
  return weights_apart && kind == TaskKind::BackwardWeight ? 'W' : 'B';
}

class PipelineReporter {
 public:
  PipelineReporter(const SimulatedPart& part, const BoundStrategy& strategy, const Pipeline& pipeline)
      : part_(part), pipeline_(pipeline) {
    std::vector<ParallelConfig> configs;
    for (const BoundOperator* b : strategy) configs.push_back(b->config);
    const PlanOptions& options = part.contents().options();
    order_ = pipeline_order(configs, pipeline, options.microbatches, part.topology().num_devices());
    report_.schedule = pipeline.schedule;
    report_.messages_block = part.contents().messages_block();
    report_.updates_between = part.contents().versions().several();
    report_.microbatches = options.microbatches;
    report_.both_ways = schedule_kind(pipeline.schedule).both_ways;
    report_.stages.resize(static_cast<std::size_t>(pipeline.num_stages()));
    for (std::int32_t s = 0; s < pipeline.num_stages(); ++s) {
      if (order_.steps.size() > report_.stages.size())
        report_.stages[static_cast<std::size_t>(s)].replicas = pipeline.replicas_of(s);
    }
    for (std::size_t i = 0; i < strategy.size(); ++i) add_operator(OperatorId(i), configs[i]);
    for (const PipelineSchedule::value_type& steps : order_.steps) {
      for (const PipelineStep& step : steps) report_.weights_apart |= step.kind == StepKind::BackwardWeight;
    }
  }

  PipelineReport report(const std::vector<DeviceMemory>& memory, std::size_t columns) {
    for (std::size_t s = 0; s < report_.stages.size(); ++s) {
      StageReport& stage = report_.stages[s];
      for (const DeviceId d : stage.devices)
        stage.peak_memory = std::max(stage.peak_memory, memory[d.index()].peak);
    }
    look_at_tasks(columns);
    return std::move(report_);
  }

 private:
  [[nodiscard]] std::size_t stage_of(OperatorId op) const {
    return static_cast<std::size_t>(pipeline_.stage_of[op.index()]);
  }

  void add_operator(OperatorId op, const ParallelConfig& config) {
    StageReport& stage = report_.stages[stage_of(op)];
    ++stage.operators;
    std::set<DeviceId> devices(stage.devices.begin(), stage.devices.end());
    devices.insert(config.devices.begin(), config.devices.end());
    stage.devices.assign(devices.begin(), devices.end());
  }

  void look_at_tasks(std::size_t columns) {
    const std::vector<std::int64_t> alike = part_.devices_alike();
    std::vector<std::size_t> simulated_of_row(order_.steps.size(), 0);  // devices
    std::int64_t devices = 0;
    for (std::size_t d = 0; d < alike.size(); ++d) {
      if (order_.group_of[d] < 0) continue;
      ++devices;
      if (alike[d] > 0) ++simulated_of_row[row_of(DeviceId(d))];
    }
    std::vector<Activity> activities;
    Nanoseconds busy = 0;
    for (std::size_t t = 0; t < part_.labels().size(); ++t) {
      const TaskLabel& label = part_.labels()[t];
      const Nanoseconds start = part_.timeline().start[t], end = part_.timeline().end[t];
      const char mark = mark_of(label.kind, report_.weights_apart);
      if (is_communication(label.kind)) {
        std::set<std::int32_t> groups{order_.group_of[label.device.index()]};
        if (label.peer.valid()) groups.insert(order_.group_of[label.peer.index()]);
        for (const std::int32_t g : groups) {
          if (g >= 0) activities.push_back({static_cast<std::size_t>(g), mark, start, end});
        }
        continue;
      }
      if (label.kind == TaskKind::Barrier || label.kind == TaskKind::Host) continue;
      activities.push_back({row_of(label.device), mark, start, end});
      if (label.kind == TaskKind::Update && !report_.updates_between) continue;
      const Nanoseconds held =
          alike[label.device.index()] * part_.time_spent(start, start + part_.dag().duration(TaskId(t)));
      report_.stages[stage_of(label.op)].compute += held;
      busy += held;
      if (is_pass(label.kind)) note_in_flight(label, start, end);
    }
    report_.strip = draw_pipeline(activities, simulated_of_row, part_.timeline().makespan,
                                  report_.microbatches, columns, part_.steady());
    for (StageReport& stage : report_.stages)
      stage.compute /= std::max<Nanoseconds>(1, static_cast<Nanoseconds>(stage.devices.size()));
    report_.idle = 1 - share(busy, part_.makespan()) / static_cast<double>(devices);
    count_in_flight();
  }

  [[nodiscard]] std::size_t row_of(DeviceId device) const {
    return static_cast<std::size_t>(order_.group_of[device.index()]);
  }

  struct Flight {
    Nanoseconds begin = INT64_MAX, end = 0;
  };
  void note_in_flight(const TaskLabel& label, Nanoseconds start, Nanoseconds end) {
    const std::int32_t microbatch = std::max(0, label.microbatch);
    const std::size_t direction = report_.both_ways ? static_cast<std::size_t>(microbatch % 2) : 0;
    Flight& flight = flights_[{2 * stage_of(label.op) + direction, microbatch}];
    flight.begin = std::min(flight.begin, start);
    flight.end = std::max(flight.end, end);
  }

  void count_in_flight() {
    std::vector<std::vector<std::pair<Nanoseconds, int>>> changes(2 * report_.stages.size());
    for (const auto& [of, flight] : flights_) {
      changes[of.first].emplace_back(flight.begin, 1);
      changes[of.first].emplace_back(flight.end, -1);
    }
    for (std::size_t way = 0; way < changes.size(); ++way) {
      std::ranges::sort(changes[way]);  // at one time ends before beginnings
      std::int64_t now = 0, &most = report_.stages[way / 2].in_flight;
      for (const auto& [time, change] : changes[way]) {
        now += change;
        most = std::max(most, now);
      }
      // All go forward before the first comes back.
      if (part_.steady().windows.size() > 1 && most > 0 && way % 2 == 0)
        most += std::int64_t{part_.steady().repeats} * part_.steady().windows.front().microbatches;
    }
  }

  SimulatedPart part_;
  const Pipeline& pipeline_;
  PipelineOrder order_;
  PipelineReport report_;
  std::map<std::pair<std::size_t, std::int32_t>, Flight>
      flights_;  // by way through a stage (two of each) and microbatch
};

}  // namespace

std::optional<PipelineReport> report_pipeline(const SimulatedPart& part, const BoundStrategy& strategy,
                                              const std::vector<DeviceMemory>& memory, std::size_t columns) {
  const std::optional<Pipeline>& pipeline = part.contents().options().pipeline;
  if (!pipeline) return std::nullopt;
  return PipelineReporter(part, strategy, *pipeline).report(memory, columns);
}

std::string PipelineReport::stages_of_row(std::size_t row) const {
  if (both_ways) return fmt::format("{}/{}", row, stages.size() - 1 - row);
  if (strip.rows.size() > stages.size()) {
    std::size_t stage = 0;
    while (row >= static_cast<std::size_t>(stages[stage].replicas))
      row -= static_cast<std::size_t>(stages[stage++].replicas);
    return stages[stage].replicas == 1 ? fmt::format("{}", stage) : fmt::format("{}.{}", stage, row);
  }
  std::string text;
  const auto groups = static_cast<std::int64_t>(strip.rows.size());
  for (std::int64_t chunk = 0; chunk * groups < static_cast<std::int64_t>(stages.size()); ++chunk) {
    const std::int64_t stage =
        stage_of_chunk(static_cast<std::int64_t>(row), chunk, groups, lies_in_v(schedule));
    text += fmt::format("{}{}", text.empty() ? "" : ",", stage);
  }
  return text;
}

}  // namespace pipesim
