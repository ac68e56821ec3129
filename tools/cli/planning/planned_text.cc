#include "tools/cli/planning/planned_text.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

#include "search/auto/contributions.h"
#include "sim/base/suggest.h"
#include "tools/analysis/plans/pipeline_report.h"
#include "tools/analysis/plans/plan_report.h"
#include "tools/render/base/table.h"
#include "tools/render/plans/pipeline_report_text.h"

namespace pipesim {
namespace {

// Returns a table of the stages with their devices and their first and last operators.
std::string stage_table(const PlannedModel& planned) {
  if (!planned.options.pipeline) return "  no pipeline\n";
  const OperatorGraph& graph = planned.graph;
  const Pipeline& pipeline = *planned.options.pipeline;
  Table table({{"stage", Align::Right}, {"devices"}, {"from"}, {"to"}});
  for (std::int32_t s = 0; s < pipeline.num_stages(); ++s) {
    const std::vector<std::int32_t>& stage_of = pipeline.stage_of;
    const auto first = static_cast<std::size_t>(std::ranges::find(stage_of, s) - stage_of.begin());
    std::size_t last = stage_of.size() - 1;
    while (stage_of[last] != s) --last;
    std::set<DeviceId> devices_in_use;
    for (std::size_t i = 0; i < stage_of.size(); ++i) {
      if (stage_of[i] == s)
        devices_in_use.insert(planned.strategy[i].devices.begin(), planned.strategy[i].devices.end());
    }
    const auto used = static_cast<std::int64_t>(devices_in_use.size());
    const std::int64_t meant = planned.devices[static_cast<std::size_t>(s)];
    const std::int32_t replicas = pipeline.replicas_of(s);
    const std::string devices =
        used == meant ? devices_text(used, replicas)
                      : fmt::format("{} of {}: a microbatch can't be split in more", used, meant);
    table.add({fmt::format("{}", s), devices, graph.operators()[first].name, graph.operators()[last].name});
  }
  return table.str(2);
}

// Writes a time with enough digits to tell apart plans that differ by a thousandth of a percent.
std::string precise(Nanoseconds time) {
  constexpr double kSecond = 1e9, kMillisecond = 1e6, kMicrosecond = 1e3;
  const auto ns = static_cast<double>(time);
  const auto [unit, name] = ns >= kSecond        ? std::pair(kSecond, "s")
                            : ns >= kMillisecond ? std::pair(kMillisecond, "ms")
                                                 : std::pair(kMicrosecond, "us");
  constexpr double kThousand = 1e3, kHundred = 1e2, kTen = 10;
  const double value = ns / unit;
  const int decimals = value >= kThousand ? 2 : value >= kHundred ? 3 : value >= kTen ? 4 : 5;
  return fmt::format("{:.{}f} {}", value, decimals, name);
}

std::string contributions_text(const PlannerAnswer& planned, const Topology& topology) {
  if (planned.contributions.empty()) return "";
  Table table({{"algorithm"}, {"iteration", Align::Right}, {"took", Align::Right}, {""}});
  const auto all = static_cast<std::int64_t>(topology.num_devices());
  for (const Contribution& c : without_late_repeats(planned.contributions)) {
    std::vector<std::string> remarks;
    if (c.evaluation && !c.evaluation->feasible()) remarks.emplace_back("does not fit");
    if (c.evaluation && c.devices_used < all)
      remarks.push_back(fmt::format("{} of {} devices used", c.devices_used, all));
    if (!c.note.empty()) remarks.push_back(c.note);
    table.add({c.name, c.evaluation ? precise(c.evaluation->time) : "-", pretty(Seconds(c.seconds)),
               fmt::format("{}", fmt::join(remarks, "; "))});
  }
  return table.str(2) + "\n";
}

// "does not fit; 9 of 16 devices used".
std::string remarks_of(const PlannerTrial& trial, std::size_t devices) {
  std::string text = trial.evaluation->feasible() ? "" : "does not fit";
  if (trial.devices_used < devices)
    text += fmt::format("{}{} of {} devices used", text.empty() ? "" : "; ", trial.devices_used, devices);
  return text;
}

// A table of the best pipelines of all that were simulated.
std::string pipelines_text(const PlannerTrials& trials, std::size_t devices) {
  constexpr std::size_t kShown = 8;
  const bool replicated = trials.of == PlannerTrials::Of::ReplicatedStages;
  const std::size_t all = trials.tried.size();
  Table table({replicated ? Table::Column{"replicas"} : Table::Column{"stages", Align::Right},
               {replicated ? "copies" : "groups", Align::Right},
               {"schedule"},
               {"iteration", Align::Right},
               {""}});
  for (std::size_t i = 0; i < std::min(kShown, all); ++i) {
    const PlannerTrial& t = trials.tried[i];
    const std::string time = pretty(to_seconds(t.evaluation->time)), remarks = remarks_of(t, devices);
    if (replicated) {
      table.add({fmt::format("{}", fmt::join(t.replicas, ":")), fmt::format("{}", t.copies), t.schedule, time,
                 remarks});
    } else {
      table.add({fmt::format("{}", t.stages), fmt::format("{}", t.stages / t.chunks),
                 t.stages > 1 ? t.schedule : "data parallelism", time, remarks});
    }
  }
  std::string text = fmt::format("{} {} simulated\n", counted(static_cast<std::int64_t>(all), "pipeline"),
                                 all == 1 ? "was" : "were") +
                     table.str(2) + (all > kShown ? fmt::format("  … and {} more\n", all - kShown) : "");
  if (trials.not_simulated > 0)
    text += fmt::format("  {} more were not simulated: out of time\n", trials.not_simulated);
  if (trials.some_not_simulated) text += "  others were not simulated: out of time\n";
  return text;
}

std::string trials_text(const PlannerTrials& trials, std::size_t devices) {
  if (trials.of != PlannerTrials::Of::Schedules) return pipelines_text(trials, devices);
  Table table({{"schedule"}, {"iteration", Align::Right}, {""}});
  for (const PlannerTrial& t : trials.tried) {
    if (t.evaluation) {
      table.add({t.schedule, pretty(to_seconds(t.evaluation->time)),
                 t.evaluation->feasible() ? "" : "does not fit"});
    } else {
      table.add({t.schedule, "-", "not simulated: out of time"});
    }
  }
  return "schedules were simulated\n" + table.str(2);
}

}  // namespace

std::string to_text(const PlannerAnswer& planned, const Topology& topology) {
  std::string text = (planned.recipes ? "" : stage_table(planned.plan) + "\n") +  // a recipe says it
                     contributions_text(planned, topology);
  if (planned.trials.of != PlannerTrials::Of::Nothing)
    text += trials_text(planned.trials, topology.num_devices()) + "\n";
  return text;
}

nlohmann::ordered_json json_of(const PlannerObjective& objective) {
  nlohmann::ordered_json json{{"unit", objective.unit},
                              {"value", objective.value},
                              {"text", objective.text},
                              {"activation_factor", nullptr}};
  if (objective.activation_factor) json["activation_factor"] = *objective.activation_factor;
  return json;
}

nlohmann::ordered_json contributions_json(const PlannerAnswer& planned) {
  using Json = nlohmann::ordered_json;
  Json list = Json::array();
  for (const Contribution& c : planned.contributions) {
    Json row{{"algorithm", c.name},     {"iteration_time_s", nullptr}, {"fits", nullptr},
             {"devices_used", nullptr}, {"wall_time_s", c.seconds},    {"note", c.note}};
    if (c.evaluation) {
      row["iteration_time_s"] = to_seconds(c.evaluation->time).value;
      row["fits"] = c.evaluation->feasible();
      row["devices_used"] = c.devices_used;
    }
    list.push_back(std::move(row));
  }
  return list;
}

}  // namespace pipesim
