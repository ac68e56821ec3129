#include "tools/render/traces/trace_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "tools/base/figures.h"
#include "tools/render/base/table.h"

namespace pipesim {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::size_t kMostOperatorRows = 24, kMostStepRows = 12, kMostSlowdownRows = 8, kLongestName = 44;

std::string shortened(std::string text) {
  constexpr std::string_view kAten = "aten::";
  if (text.starts_with(kAten)) text.erase(0, kAten.size());
  if (text.starts_with("void ")) text.erase(0, 5);
  if (text.size() > kLongestName) text = text.substr(0, kLongestName - 3) + "...";
  return text;
}

std::string_view words_of(StepSource source) {
  switch (source) {
    case StepSource::ProfilerSteps:
      return "as the profiler marked them";
    case StepSource::Repeats:
      return "found by kernels that repeat";
    case StepSource::Optimizer:
      return "between the ends of optimizer steps";
    case StepSource::Whole:
      break;
  }
  return "nothing tells steps apart, so the trace is taken as one";
}

std::string share_text(Seconds part, Seconds all) { return percent(all.value > 0 ? part / all : 0); }

std::string pretty_seconds(double seconds) { return pretty(Seconds(seconds)); }

std::string rate_text(const OperatorTime& time) {
  if (time.call.median <= 0) return "";
  if (time.work.flops > 0) return pretty(FlopsPerSecond(time.work.flops / time.call.median));
  if (time.work.bytes > 0) return pretty(BytesPerSecond(time.work.bytes / time.call.median));
  return "";
}

std::string steps_table(const TraceAnalysis& analysis, std::span<const MeasuredTrace> traces) {
  const bool several = analysis.devices.size() > 1;
  std::vector<Table::Column> columns{{"step"}};
  if (several) columns.insert(columns.begin(), {"device"});
  for (const char* title :
       {"time", "busy", "launched late", "other idle", "communication", "exposed", "launches"})
    columns.push_back({title, Align::Right});
  Table table(columns);
  std::size_t rows = 0, all = 0;
  for (const DeviceAnalysis& of : analysis.devices) {
    for (std::size_t s = 0; s < of.steps.size(); ++s, ++all) {
      if (rows == kMostStepRows) continue;
      ++rows;
      const StepTimes& t = of.steps[s];
      const auto part = [&](Seconds time) { return time.value > 0 ? pretty(time) : "0"; };
      std::vector<std::string> row{of.device.steps[s].name, pretty(t.length),          part(t.busy),
                                   part(t.late_launch),     part(t.dependencies),      part(t.communication),
                                   part(t.exposed),         std::to_string(t.launches)};
      if (several) {
        const MeasuredTrace& trace = traces[of.trace];
        row.insert(row.begin(), trace.rank >= 0 ? fmt::format("rank {}", trace.rank)
                                                : fmt::format("{} gpu{}", of.trace + 1, of.device.number));
      }
      table.add(row);
    }
  }
  return table.str(2) + (all > rows ? fmt::format("  … and {} more\n", all - rows) : "");
}

std::string operators_table(const DeviceAnalysis& of) {
  Seconds all;
  for (const OperatorTime& time : of.operators) all += time.total;
  Table table({{"share", Align::Right},
               {"calls", Align::Right},
               {"median", Align::Right},
               {"rate", Align::Right},
               {"operator"},
               {"inputs"}});
  const std::size_t rows = std::min(kMostOperatorRows, of.operators.size());
  Seconds shown;
  for (std::size_t i = 0; i < rows; ++i) {
    const OperatorTime& time = of.operators[i];
    shown += time.total;
    table.add({share_text(time.total, all), std::to_string(time.calls), pretty_seconds(time.call.median),
               rate_text(time), shortened(time.name), time.inputs});
  }
  std::string text = table.str(2);
  if (rows < of.operators.size())
    text += fmt::format("  … and {} more: {}\n", of.operators.size() - rows, share_text(all - shown, all));
  return text;
}

std::string launches_line(const DeviceAnalysis& of) {
  if (of.host.count == 0)
    return fmt::format("  launches       {}; the device never waited for the next one\n", of.launches);
  return fmt::format(
      "  launches       {}; before {} of them the device waited for the host, which took {} from the launch "
      "before\n                 (median; quartiles {} and {}). The profiler itself makes the host slower.\n",
      of.launches, of.host.count, pretty_seconds(of.host.median), pretty_seconds(of.host.low),
      pretty_seconds(of.host.high));
}

std::string with_deviation(double value, double deviation, std::string (*pretty_of)(double)) {
  return deviation > 0 ? fmt::format("{} ± {}", pretty_of(value), pretty_of(deviation)) : pretty_of(value);
}

std::string groups_table(const std::vector<GroupTimes>& groups) {
  Table table({{"group"},
               {"collective"},
               {"ranks", Align::Right},
               {"sizes", Align::Right},
               {"calls", Align::Right},
               {"alpha", Align::Right},
               {"beta", Align::Right},
               {"waiting", Align::Right}});
  bool one = false;
  for (const GroupTimes& group : groups) {
    std::int64_t calls = 0;
    for (const CollectivePoint& point : group.points) calls += point.calls;
    one = one || group.traces < 2;
    table.add({group.group, group.name, std::to_string(group.group_size), std::to_string(group.points.size()),
               std::to_string(calls),
               group.fit ? with_deviation(group.fit->alpha, group.fit->alpha_deviation, pretty_seconds) : "",
               group.fit ? fmt::format("{:.3g} us/MB ({})", group.fit->beta * 1e12,
                                       pretty(BytesPerSecond(1 / group.fit->beta)))
                         : "",
               group.recorded.value > 0 ? percent(group.waited / group.recorded) : ""});
  }
  return table.str(2) +
         (one ? "  With the trace of one rank, a size takes the least time of its calls; with traces of "
                "several, its\n  time on the rank that arrived last.\n"
              : "");
}

std::string slowdowns_text(const DeviceAnalysis& of) {
  Table table({{"times as long", Align::Right},
               {"alone", Align::Right},
               {"beside", Align::Right},
               {"kernels beside communication"}});
  for (std::size_t i = 0; i < std::min(kMostSlowdownRows, of.slowdowns.size()); ++i) {
    const OverlapSlowdown& s = of.slowdowns[i];
    std::string name = shortened(s.name.empty() ? s.kernel : s.name);
    if (!s.name.empty()) name += s.inputs.empty() ? " | " + shortened(s.kernel) : " " + s.inputs;
    table.add({fmt::format("{:.2f}", s.times()), fmt::format("{} x {}", s.alone, pretty(s.time_alone)),
               fmt::format("{} x {}", s.beside, pretty(s.time_beside)), name});
  }
  return fmt::format("  Kernels beside communication take {:.2f} times as long as alone.\n",
                     mean_slowdown(of.slowdowns)) +
         table.str(2);
}

std::string named(const KindOfDevices& kind) { return kind.name.empty() ? "of no recorded kind" : kind.name; }

// " (NVIDIA A100)", or " (7 x NVIDIA A100, 1 x Tesla V100)".
std::string kinds_text(const std::vector<KindOfDevices>& kinds) {
  if (kinds.size() == 1) return kinds.front().name.empty() ? "" : " (" + kinds.front().name + ")";
  std::string text;
  for (const KindOfDevices& kind : kinds)
    text += fmt::format("{}{} x {}", text.empty() ? "" : ", ", kind.devices, named(kind));
  return " (" + text + ")";
}

Json json_of(const StepTimes& t, const std::string& name) {
  return {{"step", name},
          {"time_s", t.length.value},
          {"busy_s", t.busy.value},
          {"idle_launched_late_s", t.late_launch.value},
          {"idle_other_s", t.dependencies.value},
          {"communication_s", t.communication.value},
          {"exposed_communication_s", t.exposed.value},
          {"launches", t.launches}};
}

Json json_of(const OperatorTime& time) {
  Json json{{"operator", time.name},        {"inputs", time.inputs},
            {"class", name_of(time.kind)},  {"calls", time.calls},
            {"median_s", time.call.median}, {"quartiles_s", {time.call.low, time.call.high}},
            {"total_s", time.total.value}};
  if (time.work.flops > 0) json["flops"] = time.work.flops;
  if (time.work.bytes > 0) json["bytes"] = time.work.bytes;
  return json;
}

Json json_of(const GroupTimes& group) {
  Json points = Json::array();
  for (const CollectivePoint& p : group.points)
    points.push_back({{"bytes", p.size.value}, {"calls", p.calls}, {"time_s", p.time.value}});
  Json json{{"group", group.group},           {"ranks", group.ranks}, {"collective", group.name},
            {"traces", group.traces},         {"points", points},     {"recorded_s", group.recorded.value},
            {"waiting_s", group.waited.value}};
  if (group.fit) {
    json["alpha_s"] = group.fit->alpha;
    json["alpha_deviation_s"] = group.fit->alpha_deviation;
    json["beta_s_per_byte"] = group.fit->beta;
    json["beta_deviation_s_per_byte"] = group.fit->beta_deviation;
  }
  return json;
}

Json json_of(const OverlapSlowdown& s) {
  return {{"kernel", s.kernel},
          {"operator", s.name},
          {"inputs", s.inputs},
          {"alone", s.alone},
          {"beside", s.beside},
          {"median_alone_s", s.time_alone.value},
          {"median_beside_s", s.time_beside.value}};
}

}  // namespace

std::string to_text(const TraceAnalysis& analysis, std::span<const MeasuredTrace> traces) {
  const DeviceAnalysis& first = analysis.devices.front();
  const std::vector<KindOfDevices> kinds = kinds_of(analysis);
  std::string text = fmt::format(
      "{}{}: {} on {}{}, {}\n\n", traces.front().file,
      traces.size() > 1 ? fmt::format(" and {} more", traces.size() - 1) : "",
      first.steps.size() == 1 ? "1 step" : fmt::format("{} steps", first.steps.size()),
      analysis.devices.size() == 1 ? "1 device" : fmt::format("{} devices", analysis.devices.size()),
      kinds_text(kinds), words_of(first.device.source));
  text += steps_table(analysis, traces);
  // What operators take is that of a kind of device.
  for (const KindOfDevices& kind : kinds) {
    if (kinds.size() > 1) text += fmt::format("\n{}\n", named(kind));
    text += "\n" + operators_table(*kind.first) + "\n" + launches_line(*kind.first);
    if (kinds.size() > 1 && !kind.first->slowdowns.empty()) text += "\n" + slowdowns_text(*kind.first);
  }
  if (!analysis.groups.empty()) text += "\n" + groups_table(analysis.groups);
  if (kinds.size() == 1 && !first.slowdowns.empty()) text += "\n" + slowdowns_text(first);
  return text;
}

Json json_of(const TraceAnalysis& analysis, std::span<const MeasuredTrace> traces) {
  Json devices = Json::array(), groups = Json::array();
  for (const DeviceAnalysis& of : analysis.devices) {
    Json steps = Json::array(), operators = Json::array(), slowdowns = Json::array();
    for (std::size_t s = 0; s < of.steps.size(); ++s)
      steps.push_back(json_of(of.steps[s], of.device.steps[s].name));
    for (const OperatorTime& time : of.operators) operators.push_back(json_of(time));
    for (const OverlapSlowdown& s : of.slowdowns) slowdowns.push_back(json_of(s));
    Json json{{"file", traces[of.trace].file}, {"device", of.device.number}, {"kind", of.device.name}};
    if (traces[of.trace].rank >= 0) json["rank"] = traces[of.trace].rank;
    json["steps"] = steps;
    json["launches"] = of.launches;
    json["host"] = {{"launches_waited_for", of.host.count},
                    {"median_s", of.host.median},
                    {"quartiles_s", {of.host.low, of.host.high}}};
    json["operators"] = operators;
    json["slowdown_beside_communication"] = mean_slowdown(of.slowdowns);
    json["slowdowns"] = slowdowns;
    devices.push_back(std::move(json));
  }
  for (const GroupTimes& group : analysis.groups) groups.push_back(json_of(group));
  return {{"devices", devices}, {"groups", groups}};
}

}  // namespace pipesim
