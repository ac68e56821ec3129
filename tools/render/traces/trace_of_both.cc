#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <sstream>

#include "sim/trace.h"
#include "tools/render/traces/step_comparison_text.h"

namespace pipesim {
namespace {

// Tracks by name, in the order in which they are asked for.
class TracksOfProcess {
 public:
  TracksOfProcess(std::string process, std::vector<TraceTrack>& tracks)
      : process_(std::move(process)), tracks_(tracks) {}
  std::size_t track(const std::string& thread) {
    const auto [known, is_new] = numbers_.try_emplace(thread, tracks_.size());
    if (is_new) tracks_.push_back({process_, thread});
    return known->second;
  }

 private:
  std::string process_;
  std::vector<TraceTrack>& tracks_;
  std::map<std::string, std::size_t> numbers_;
};

void add_predicted_slices(const SimulatedPart& part, DeviceId device, TracksOfProcess tracks,
                          std::vector<TraceSlice>& slices) {
  const TaskGraph& tasks = part.task_graph();
  const Timeline& timeline = part.timeline();
  const std::size_t host = tracks.track("host"), compute = tracks.track("compute");
  for (std::size_t t = 0; t < tasks.labels.size(); ++t) {
    const TaskLabel& label = tasks.labels[t];
    const Nanoseconds duration = timeline.end[t] - timeline.start[t];
    if (label.kind == TaskKind::Barrier || duration <= 0) continue;
    if (label.device != device && label.peer != device) continue;
    std::size_t track = compute;
    if (label.kind == TaskKind::Host) track = host;
    if (is_communication(label.kind)) track = tracks.track("communication");
    slices.push_back({track, describe(label, part.graph(), part.topology()), std::string(name_of(label.kind)),
                      timeline.start[t], duration});
  }
}

// The operator says what a kernel is for; its own name is long.
std::string name_of_slice(const MeasuredTrace& trace, const DeviceActivity& activity) {
  const TracedOperator* op = trace.operator_of(activity);
  if (!op) return trace.name(activity.name);
  std::string name = trace.name(op->name);
  if (op->call >= 0) name += " " + inputs_text(trace.calls[static_cast<std::size_t>(op->call)]);
  return name + " | " + trace.name(activity.name);
}

void add_measured_slices(const MeasuredTrace& trace, const TracedStep& step, TracksOfProcess tracks,
                         std::vector<TraceSlice>& slices) {
  std::map<std::int32_t, const TracedLaunch*> launches;
  for (const std::size_t a : step.activities) {
    const std::int32_t launch = trace.activities[a].launch;
    if (launch >= 0) launches.emplace(launch, &trace.launches[static_cast<std::size_t>(launch)]);
  }
  for (const auto& [number, launch] : launches) {
    // What was launched before the device began with the step.
    const Nanoseconds begin = std::max<Nanoseconds>(0, launch->start - step.begin),
                      end = std::max<Nanoseconds>(0, launch->end - step.begin);
    if (end > 0)
      slices.push_back({tracks.track(fmt::format("launches of thread {}", launch->thread)), "launch", "host",
                        begin, end - begin});
  }
  for (const std::size_t a : step.activities) {
    const DeviceActivity& activity = trace.activities[a];
    slices.push_back({tracks.track(fmt::format("stream {}", activity.stream)), name_of_slice(trace, activity),
                      std::string(name_of(class_of(trace, activity))), activity.start - step.begin,
                      activity.duration});
  }
}

// Each work has a part of the track of its own, as wide as the longer of its two times.
void add_differences(const StepComparison& comparison, TracksOfProcess tracks,
                     std::vector<TraceSlice>& slices) {
  const std::size_t predicted = tracks.track("predicted"), measured = tracks.track("measured");
  Nanoseconds start = 0;
  for (const ComparedWork& work : comparison.work) {
    const Nanoseconds said = to_nanoseconds(work.predicted.time), took = to_nanoseconds(work.measured.time);
    if (said > 0) slices.push_back({predicted, work.name, "predicted", start, said});
    if (took > 0) slices.push_back({measured, work.name, "measured", start, took});
    start += std::max(said, took);
  }
}

}  // namespace

std::string trace_of_both(const SimulatedPart& part, DeviceId device, const MeasuredTrace& trace,
                          const TracedStep& step, const StepComparison& comparison) {
  std::vector<TraceTrack> tracks;
  std::vector<TraceSlice> slices;
  add_predicted_slices(part, device,
                       {fmt::format("predicted: {}", part.topology().device(device).name), tracks}, slices);
  add_measured_slices(trace, step, {fmt::format("measured: {}", step.name), tracks}, slices);
  add_differences(comparison, {"differences, the largest first", tracks}, slices);
  std::ostringstream out;
  out.exceptions(std::ios::badbit);
  write_trace(out, tracks, slices);
  return std::move(out).str();
}

}  // namespace pipesim
