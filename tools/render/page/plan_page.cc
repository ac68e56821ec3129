#include "tools/render/page/plan_page.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "sim/base/suggest.h"
#include "tools/analysis/inputs/calibration_use.h"
#include "tools/analysis/plans/plan_report.h"
#include "tools/base/figures.h"
#include "tools/render/inputs/plan_origin_text.h"
#include "tools/render/plans/pipeline_report_text.h"
#include "tools/render/plans/plan_report_text.h"

namespace pipesim {
namespace {

using Json = nlohmann::ordered_json;

std::string shown_time(Nanoseconds t) { return pretty(to_seconds(t)); }

std::vector<PageFact> facts_of(const Subject& s, const PlanReport& r) {
  std::vector<PageFact> facts{
      {"model", s.graph.name()},
      {"topology", fmt::format("{} ({})", s.topology.name(), devices_text(s.topology))},
      {"batch", batch_text(s.graph, s.plan.options)}};
  const auto add = [&](const char* label, std::string value) {
    if (!value.empty()) facts.push_back({label, std::move(value)});
  };
  add("plan by", s.plan.found_by);
  add("recipe", r.recipe);
  add("iteration", shown_time(r.iteration_time) +
                       (r.spread ? fmt::format(" (estimated, within {})", shown_time(*r.spread)) : ""));
  add("throughput", pretty_rate(r.samples_per_second));
  if (r.rates.tokens_per_second > 0) {
    add("tokens", significant(r.rates.tokens_per_second, 4) + " a second");
    add("MFU", fmt::format("{}: {}, of {}", percent(r.rates.mfu()), counting_text(r.rates),
                           peak_text(r.rates, s.topology)));
  }
  Bytes peak;
  for (const DeviceMemory& m : r.memory) peak = std::max(peak, m.peak);
  add("fullest device", pretty(peak));
  add("fits", r.infeasible ? "no: " + *r.infeasible : "yes");
  std::string path = fmt::format("{} of compute, {} of communication, {} of waiting for links",
                                 shown_time(r.critical.compute), shown_time(r.critical.communication),
                                 shown_time(r.critical.waiting));
  if (r.critical_host > 0) path += fmt::format("; launches by hosts: {}", shown_time(r.critical_host));
  add("critical path", path);
  add("devices idle", r.idle);
  add("rates", r.borrowed_rates);
  add("unknown kinds", r.opaque);
  return facts;
}

std::vector<std::string> notes_of(const Subject& s, const PlanReport& r, const SimulatedPart& part) {
  std::vector<std::string> notes;
  if (part.folding())
    notes.push_back(fmt::format("Of {} the {} that stand for the others are drawn: one of each kind.",
                                devices_text(s.topology), r.simulated_devices));
  if (!part.steady().windows.empty())
    notes.push_back(fmt::format(
        "{} of {} microbatches are drawn. The parts of the timeline between double lines come {} in the "
        "iteration, which takes {}; memory is that of the drawn microbatches, and its peak is given beside "
        "it.",
        part.expanded().microbatches(), s.plan.options.microbatches,
        counted(part.steady().repeats + 1, "time"), shown_time(r.iteration_time)));
  if (r.makespan > r.iteration_time && part.steady().windows.empty())
    notes.push_back(
        fmt::format("Microbatches of the next iterations follow without a gap: an iteration takes {}, "
                    "and what is drawn {}.",
                    shown_time(r.iteration_time), shown_time(r.makespan)));
  if (!s.profile_note.empty()) notes.push_back(s.profile_note);
  if (!s.others.empty()) notes.push_back(to_text(s.others));
  return notes;
}

PageTable stages_table(const PipelineReport& p) {
  PageTable table{"Stages",
                  fmt::format("Schedule {}, {}.", p.schedule, counted(p.microbatches, "microbatch")),
                  {{"stage", true},
                   {"operators", true},
                   {"devices", true},
                   {"compute", true},
                   {"in flight", true},
                   {"peak memory", true}},
                  {}};
  for (std::size_t i = 0; i < p.stages.size(); ++i) {
    const StageReport& s = p.stages[i];
    table.rows.push_back({std::to_string(i), std::to_string(s.operators),
                          devices_text(static_cast<std::int64_t>(s.devices.size()), s.replicas),
                          shown_time(s.compute), std::to_string(s.in_flight), pretty(s.peak_memory)});
  }
  return table;
}

PageTable devices_table(const PlanReport& r, const SimulatedPart& part, const Topology& topology) {
  constexpr std::size_t kMost = 256;
  PageTable table{"Devices",
                  "",
                  {{"device"},
                   {"stands for", true},
                   {"compute", true},
                   {"recompute", true},
                   {"links busy", true},
                   {"idle", true},
                   {"peak memory", true},
                   {"usable", true}},
                  {}};
  const std::vector<std::int64_t> alike = part.devices_alike();
  std::size_t left_out = 0;
  for (std::size_t d = 0; d < alike.size(); ++d) {
    if (alike[d] == 0) continue;
    if (table.rows.size() == kMost) {
      ++left_out;
      continue;
    }
    const double idle = 1 - share(r.compute[d], std::max<Nanoseconds>(1, r.makespan));
    table.rows.push_back({topology.device(DeviceId(d)).name, std::to_string(alike[d]),
                          shown_time(r.compute[d]), shown_time(r.recompute[d]),
                          shown_time(r.communication[d]), percent(idle), pretty(r.memory[d].peak),
                          pretty(topology.usable_memory(DeviceId(d), r.memory[d].communicators))});
  }
  if (left_out > 0) table.note = fmt::format("{} more are left out.", left_out);
  return table;
}

PageTable causes_table(const PlanReport& r) {
  const CommunicationSummary sum = summary_of(r.by_cause, r.compute);
  const double whole = seconds(std::max<Nanoseconds>(1, r.iteration_time));
  PageTable table{"Communication by cause",
                  "Mean over the devices that compute. Exposed: meanwhile the device computes nothing.",
                  {{"cause"}, {"exposed", true}, {"of the iteration", true}, {"hidden", true}},
                  {}};
  for (std::size_t c = 0; c < kCommunicationCauses; ++c) {
    if (sum.exposed[c] == 0 && sum.hidden[c] == 0) continue;
    table.rows.push_back({std::string(name_of(static_cast<CommunicationCause>(c))),
                          pretty(Seconds(sum.exposed[c])), percent(sum.exposed[c] / whole),
                          pretty(Seconds(sum.hidden[c]))});
  }
  return table;
}

PageTable page_links_table(const SimulatedPart& part, const Topology& topology) {
  constexpr std::size_t kMost = 128;
  const std::vector<double> load = loads_of_lanes(part, topology.num_lanes());
  std::vector<std::size_t> lanes;
  for (std::size_t lane = topology.num_devices(); lane < load.size(); ++lane) {
    if (load[lane] > 0 && part.stands_for(LaneId(lane)) == LaneId(lane)) lanes.push_back(lane);
  }
  std::ranges::stable_sort(lanes, std::greater<>(), [&](std::size_t lane) { return load[lane]; });
  PageTable table{"Links", "", {{"link"}, {"bandwidth", true}, {"busy", true}}, {}};
  for (const std::size_t lane : lanes) {
    if (table.rows.size() == kMost) break;
    table.rows.push_back({topology.lane_name(LaneId(lane)), pretty(topology.lane_bandwidth(LaneId(lane))),
                          percent(load[lane])});
  }
  if (lanes.size() > kMost) table.note = fmt::format("The {} busiest of {}.", kMost, lanes.size());
  return table;
}

// Returns the most steps that a simulated device's memory is drawn with: enough for a wide screen, and fewer
// where there are many devices.
std::size_t steps_of_memory(const SimulatedPart& part) {
  constexpr std::size_t kAll = 60'000, kMost = 3'000, kLeast = 200;
  const std::vector<std::int64_t> alike = part.devices_alike();
  const auto devices =
      static_cast<std::size_t>(std::ranges::count_if(alike, [](std::int64_t n) { return n > 0; }));
  return std::clamp(kAll / std::max<std::size_t>(1, devices), kLeast, kMost);
}

}  // namespace

PlanPage plan_page(const std::string& name, const Subject& s, std::int64_t most_tasks,
                   const FlopsCounting& counting) {
  const CostModel costs(s.topology, pointer_to(s.calibration), s.plan.runtime);
  Evaluator evaluator(s.graph, costs, s.plan.options);
  const BoundStrategy strategy = evaluator.contents().bind(s.plan.strategy);
  PlanReport report = report_plan(evaluator, strategy, counting);
  if (!report.part->is_all() && num_tasks_of_all(*report.part) <= most_tasks)
    report = report_plan_in_full(evaluator, strategy, counting);
  const SimulatedPart& part = *report.part;
  constexpr std::size_t kStrip = 160, kNodes = 4;
  PlanPage page;
  page.name = name;
  page.facts = facts_of(s, report);
  page.notes = notes_of(s, report, part);
  page.iteration = report.iteration_time;
  page.timeline = timeline_rows(part, strategy, report.critical);
  page.memory = memory_curves(part, report.memory, steps_of_memory(part));
  page.pipeline = report_pipeline(part, strategy, report.memory, kStrip);
  page.topology = draw_topology(part, s.topology, report.compute, kNodes);
  if (page.pipeline) page.tables.push_back(stages_table(*page.pipeline));
  page.tables.push_back(devices_table(report, part, s.topology));
  page.tables.push_back(causes_table(report));
  page.tables.push_back(page_links_table(part, s.topology));
  std::erase_if(page.tables, [](const PageTable& t) { return t.rows.empty(); });
  return page;
}

namespace {

Json strip_json(const PipelineReport& p) {
  Json rows = Json::array(), left_out = Json::array();
  for (std::size_t r = 0; r < p.strip.rows.size(); ++r)
    rows.push_back({{"stages", p.stages_of_row(r)}, {"marks", p.strip.rows[r]}});
  for (const LeftOut& out : p.strip.left_out)
    left_out.push_back({{"begin", out.begin}, {"end", out.end}, {"idle", out.idle}});
  return {{"schedule", p.schedule},
          {"microbatches", p.microbatches},
          {"idle", p.idle},
          {"column", p.strip.column},
          {"rows", rows},
          {"left_out", left_out},
          {"repeats", p.strip.steady.repeats}};
}

}  // namespace

nlohmann::ordered_json json_of(const PlanPage& page) {
  Json tables = Json::array();
  for (const PageTable& t : page.tables) tables.push_back(json_of(t));
  Json json{{"kind", "plan"},
            {"name", page.name},
            {"facts", json_of(page.facts)},
            {"notes", page.notes},
            {"iteration", page.iteration},
            {"timeline", json_of(page.timeline)},
            {"memory", json_of(page.memory)}};
  if (page.pipeline) json["strip"] = strip_json(*page.pipeline);
  json["topology"] = json_of(page.topology);
  json["tables"] = std::move(tables);
  return json;
}

}  // namespace pipesim
