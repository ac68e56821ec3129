#include "tools/render/page/executed_timeline.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <map>
#include <tuple>
#include <utility>

#include "sim/base/file_kind.h"
#include "sim/base/suggest.h"
#include "tools/base/figures.h"

namespace pipesim {
namespace {

constexpr std::string_view kTraceOfExecute = "what \"pipesim execute … --trace FILE\" writes";

// A thread of the trace, which belongs to one device.
struct ExecutedTrack {
  std::string device;
  bool measured = false;
};

struct ExecutedSlice {
  std::size_t track = 0;
  DrawnTask task;
};

// "conv1 forward of microbatch 2": the name without the microbatch, and its number from 0; -1 without one.
std::pair<std::string, std::int32_t> without_microbatch(const std::string& name) {
  constexpr std::string_view kWords = " of microbatch ";
  const std::size_t at = name.rfind(kWords);
  if (at == std::string::npos) return {name, -1};
  std::int32_t number = 0;
  const char* const end = name.data() + name.size();
  const auto [stopped, error] = std::from_chars(name.data() + at + kWords.size(), end, number);
  if (error != std::errc() || stopped != end || number < 1) return {name, -1};
  return {name.substr(0, at), number - 1};
}

TaskKind kind_of_category(const JsonValue& category) {
  std::string known;
  const std::string found = category.string();
  for (int k = 0; k <= static_cast<int>(TaskKind::Interference); ++k) {
    const auto kind = static_cast<TaskKind>(k);
    if (name_of(kind) == found) return kind;
    known += fmt::format("{}{}", known.empty() ? "" : ", ", name_of(kind));
  }
  category.fail(fmt::format("found \"{}\", allowed: {}", found, known));
}

Nanoseconds trace_time(const JsonValue& microseconds) {
  constexpr double kMostMicroseconds = 1e12, kPerMicrosecond = 1000;
  return std::llround(microseconds.number(0, kMostMicroseconds) * kPerMicrosecond);
}

// Reads tracks and slices.
class ExecutedTrace {
 public:
  explicit ExecutedTrace(const JsonValue& root) {
    const std::vector<JsonValue> events = root.at(kTraceKey).items();
    std::map<std::int64_t, std::string> processes;
    for (const JsonValue& event : events) {
      if (event.at("ph").string() != "M") continue;
      const std::string what = event.at("name").string();
      if (what == "process_name") processes[id(event, "pid")] = event.at("args").at("name").string();
      if (what == "thread_name") threads_[{id(event, "pid"), id(event, "tid")}] = tracks.size();
      if (what == "thread_name") add_track(processes[id(event, "pid")]);
    }
    const auto has = [&](bool measured) {
      return std::ranges::any_of(
          tracks, [&](const ExecutedTrack& t) { return !t.device.empty() && t.measured == measured; });
    };
    if (!has(false) || !has(true))
      root.at(kTraceKey).fail(fmt::format("found no {} timeline, allowed: {}",
                                          has(false) ? "measured" : "predicted", kTraceOfExecute));
    for (const JsonValue& event : events) {
      if (event.at("ph").string() == "X") add_slice(event);
    }
    if (slices.empty()) root.at(kTraceKey).fail(fmt::format("found no task, allowed: {}", kTraceOfExecute));
    std::ranges::stable_sort(slices, {}, [](const ExecutedSlice& s) { return s.task.begin; });
  }

  std::vector<ExecutedTrack> tracks;
  std::vector<ExecutedSlice> slices;  // by begin
  std::vector<std::string> names;

 private:
  static std::int64_t id(const JsonValue& event, const char* key) {
    return event.at(key).integer(0, std::int64_t{1} << 53);
  }

  // Tracks that are not those of an execution get no device.
  void add_track(const std::string& process) {
    constexpr std::string_view kPredicted = " predicted", kMeasured = " measured";
    const bool measured = process.ends_with(kMeasured);
    if (!measured && !process.ends_with(kPredicted)) {
      tracks.emplace_back();
      return;
    }
    tracks.push_back(
        {process.substr(0, process.size() - (measured ? kMeasured : kPredicted).size()), measured});
  }

  void add_slice(const JsonValue& event) {
    const auto thread = threads_.find({id(event, "pid"), id(event, "tid")});
    if (thread == threads_.end() || tracks[thread->second].device.empty())
      event.fail(fmt::format("found a task on thread {}, which is of no device, allowed: {}",
                             event.at("tid").text(), kTraceOfExecute));
    const TaskKind kind = kind_of_category(event.at("cat"));
    if (kind == TaskKind::Barrier) return;  // takes no time
    const auto [name, microbatch] = without_microbatch(event.at("name").string());
    const auto [known, is_new] = numbers_.try_emplace(name, static_cast<std::int32_t>(names.size()));
    if (is_new) names.push_back(name);
    DrawnTask task;
    task.begin = trace_time(event.at("ts"));
    task.duration = trace_time(event.at("dur"));
    task.kind = kind;
    task.name = known->second;
    task.microbatch = microbatch;
    slices.push_back({thread->second, task});
  }

  std::map<std::pair<std::int64_t, std::int64_t>, std::size_t> threads_;
  std::map<std::string, std::int32_t> numbers_;
};

// Returns rows in the order of the trace's devices: for each its compute, then its transfers, predicted
// before measured. Tasks that run at once on one track get rows of their own.
TimelineRows executed_rows(const ExecutedTrace& trace) {
  std::map<std::string, std::size_t> place;
  for (const ExecutedTrack& t : trace.tracks) place.try_emplace(t.device, place.size());
  using Key = std::tuple<std::size_t, bool, bool, std::size_t, std::size_t>;  // device, moves, measured
  std::map<Key, TimelineRow> rows;
  std::map<std::pair<std::size_t, bool>, std::vector<Nanoseconds>> ends;  // by track and `moves`
  std::vector<Key> row_of;
  for (const ExecutedSlice& s : trace.slices) {
    const ExecutedTrack& track = trace.tracks[s.track];
    const bool moves = is_communication(s.task.kind);
    std::vector<Nanoseconds>& taken = ends[{s.track, moves}];
    const auto free =
        std::ranges::find_if(taken, [&](Nanoseconds end) { return end <= s.task.begin; }) - taken.begin();
    if (static_cast<std::size_t>(free) == taken.size()) taken.push_back(0);
    taken[static_cast<std::size_t>(free)] = s.task.begin + s.task.duration;
    row_of.emplace_back(place.at(track.device), moves, track.measured, s.track,
                        static_cast<std::size_t>(free));
    TimelineRow& row = rows[row_of.back()];
    row.owner = track.device;
    row.lane = moves ? "transfers" : "compute";
    row.computes = !moves;
    row.source = track.measured ? RowSource::Measured : RowSource::Predicted;
    row.busy += s.task.duration;
  }
  TimelineRows result;
  std::map<Key, std::int32_t> number;
  for (auto& [key, row] : rows) {
    number[key] = static_cast<std::int32_t>(result.rows.size());
    result.rows.push_back(std::move(row));
  }
  result.names = trace.names;
  for (std::size_t i = 0; i < trace.slices.size(); ++i) {
    const DrawnTask& task = trace.slices[i].task;
    result.bars.push_back({static_cast<std::int32_t>(i), number.at(row_of[i]), task.duration});
    result.tasks.push_back(task);
    result.end = std::max(result.end, task.begin + task.duration);
  }
  return result;
}

// Ties each task to itself in the other timeline.
void pair_up(const ExecutedTrace& trace, TimelineRows& rows) {
  using Key = std::tuple<std::string, std::int32_t, std::int32_t>;  // device, name, microbatch
  std::map<Key, std::pair<std::vector<std::int32_t>, std::vector<std::int32_t>>> alike;
  for (std::size_t i = 0; i < trace.slices.size(); ++i) {
    const ExecutedTrack& track = trace.tracks[trace.slices[i].track];
    auto& both = alike[{track.device, rows.tasks[i].name, rows.tasks[i].microbatch}];
    (track.measured ? both.second : both.first).push_back(static_cast<std::int32_t>(i));
  }
  for (const auto& [key, both] : alike) {
    for (std::size_t i = 0; i < std::min(both.first.size(), both.second.size()); ++i) {
      rows.tasks[static_cast<std::size_t>(both.first[i])].beside = both.second[i];
      rows.tasks[static_cast<std::size_t>(both.second[i])].beside = both.first[i];
    }
  }
}

// Adds up what tasks of one name take on all devices together.
void add_pairs(const ExecutedTrace& trace, MeasuredPage& page) {
  constexpr double kPerSecond = 1e9;
  std::map<std::pair<bool, std::int32_t>, MeasuredPair> sums;  // by whether they move, and name
  for (const ExecutedSlice& s : trace.slices) {
    const ExecutedTrack& track = trace.tracks[s.track];
    MeasuredPair& sum = sums[{is_communication(s.task.kind), s.task.name}];
    sum.name = trace.names[static_cast<std::size_t>(s.task.name)];
    (track.measured ? sum.measured : sum.predicted) += static_cast<double>(s.task.duration) / kPerSecond;
    sum.tasks += track.measured ? 1 : 0;
  }
  for (const auto& [key, sum] : sums) (key.first ? page.links : page.operators).push_back(sum);
}

PageTable executed_devices_table(const TimelineRows& rows) {
  PageTable table{"Devices",
                  "Measured transfers include the wait for other devices.",
                  {{"device"},
                   {"computes, predicted", true},
                   {"computes, measured", true},
                   {"transfers, predicted", true},
                   {"transfers, measured", true}},
                  {}};
  std::vector<std::pair<std::string, std::array<Nanoseconds, 4>>> devices;
  for (const TimelineRow& row : rows.rows) {
    if (devices.empty() || devices.back().first != row.owner) devices.push_back({row.owner, {}});
    devices.back().second.at((row.computes ? 0 : 2) + (row.source == RowSource::Measured ? 1 : 0)) +=
        row.busy;
  }
  for (const auto& [device, times] : devices) {
    std::vector<std::string> cells{device};
    for (const Nanoseconds t : times) cells.push_back(pretty(to_seconds(t)));
    table.rows.push_back(std::move(cells));
  }
  return table;
}

}  // namespace

MeasuredPage measured_page_of_trace(const JsonValue& root) {
  const ExecutedTrace trace(root);
  MeasuredPage page;
  page.name = root.source();
  page.timeline = executed_rows(trace);
  pair_up(trace, *page.timeline);
  Nanoseconds predicted = 0, measured = 0;
  std::int64_t tasks = 0;
  for (const ExecutedSlice& s : trace.slices) {
    const bool of_measured = trace.tracks[s.track].measured;
    Nanoseconds& end = of_measured ? measured : predicted;
    end = std::max(end, s.task.begin + s.task.duration);
    tasks += of_measured ? 1 : 0;
  }
  page.iterations.push_back(
      {"iteration", to_seconds(predicted).value, to_seconds(measured).value, {}, {}, 0});
  page.facts = {{"shows", "one iteration, the median of those that were measured"},
                {"tasks", counted(tasks, "task") + ", one for each device that takes part"}};
  add_iteration_facts(page);
  add_pairs(trace, page);
  sort_by_difference(page.operators);
  sort_by_difference(page.links);
  page.tables = {executed_devices_table(*page.timeline),
                 measured_pairs_table("Tasks, all devices together", page.operators),
                 measured_pairs_table("Transfers, all devices together", page.links)};
  std::erase_if(page.tables, [](const PageTable& t) { return t.rows.empty(); });
  return page;
}

}  // namespace pipesim
