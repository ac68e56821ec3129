#include "tools/planner_search.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <nlohmann/json.hpp>
#include <optional>
#include <ostream>
#include <set>

#include "search/baselines/baselines.h"
#include "sim/base/errors.h"
#include "sim/base/files.h"
#include "taskgraph/plan_json.h"
#include "tools/calibration_use.h"
#include "tools/inputs.h"
#include "tools/pipeline_report.h"
#include "tools/plan_report.h"
#include "tools/planners/planner.h"
#include "tools/run_settings.h"
#include "tools/search_watch.h"
#include "tools/table.h"

namespace pipesim {
namespace {

using Json = nlohmann::ordered_json;

// Stages that stand in a run, by their first and last operators.
std::string stage_table(const PlannedPipeline& planned) {
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

std::string contributions_text(const PlannedPipeline& planned) {
  if (planned.contributions.empty()) return "";
  Table table({{"algorithm"}, {"iteration", Align::Right}, {"took", Align::Right}, {""}});
  for (const Contribution& c : planned.contributions) {
    const bool fits = !c.evaluation || c.evaluation->feasible();
    table.add(
        {c.name, c.evaluation ? pretty(to_seconds(c.evaluation->time)) : "-", pretty(Seconds(c.seconds)),
         fmt::format("{}{}{}", fits ? "" : "does not fit", fits || c.note.empty() ? "" : "; ", c.note)});
  }
  return table.str(2) + "\n";
}

Json contributions_json(const PlannedPipeline& planned) {
  Json list = Json::array();
  for (const Contribution& c : planned.contributions) {
    Json row{{"algorithm", c.name}, {"wall_time_s", c.seconds}};
    if (c.evaluation) row["iteration_time_s"] = to_seconds(c.evaluation->time).value;
    if (c.evaluation) row["fits"] = c.evaluation->feasible();
    if (!c.note.empty()) row["note"] = c.note;
    list.push_back(std::move(row));
  }
  return list;
}

}  // namespace

std::vector<Option> planner_options() {
  return {
      {"stages", "N|LIST", "",
       "gpipe: so many stages of about equal compute time, on equal shares of the devices; without it, "
       "all numbers that divide the devices are simulated, under --schedule or under all of them. dapple: "
       "scores and simulates these stages instead of looking for better ones; N, or a list as of "
       "simulate (8@layer12.ffn_add,8). exhaustive: only so many stages"},
      {"chunks", "N", "1", "gpipe: so many stages share their devices (schedule interleaved)"},
      {"schedule", "NAME", "1f1b", "of a planned pipeline: " + plan_schedule_names()},
      {"cost-model", "NAME", "",
       "paper: the published objective, with its faults; otherwise pipedream minimises its objective "
       "without them (repaired), and dapple's plans are judged by the simulator (simulated)"},
      {.name = "activation-transfers",
       .argument = "COMPRESSION_RATIO",
       .default_value = "",
       .help = "pipedream: activations that cross a cut take time, divided by the ratio (1 without it)",
       .implied = "1"},
      {"layers", "N", "16",
       "alpa, exhaustive: so many clusters of operators, of which stages are made (exhaustive: 8)"},
      {"stage-costs", "FILE", "",
       "alpa: costs of stages (JSON) instead of simulated ones; without --model their partition is told"},
      {"straight", "", "", "pipedream: no stage on more than one device"},
      {"use-fewer", "", "", "pipedream: devices may stay idle"},
      {"memory-limit", "SIZE", "", "pipedream: of what a device keeps for all batches in flight"}};
}

void check_planner_options(const Arguments& a) {
  const std::string& algorithm = a.text("algorithm");
  const Planner* planner = planner_of(a);
  const std::vector<std::string> mine = planner ? planner->options : std::vector<std::string>();
  for (const Option& option : planner_options()) {
    if (a.given(option.name) && std::ranges::find(mine, option.name) == mine.end())
      throw UsageError(fmt::format("search: --{} does not go with --algorithm {}", option.name, algorithm));
  }
  if (!planner) return;
  if (a.given("cost-model")) (void)a.choice("cost-model", planner->cost_models);
  (void)schedule_of(a);
  for (const char* option :
       {"seconds", "proposals", "seed", "threads", "chains", "moves", "search-log", "candidates"}) {
    constexpr std::array<std::string_view, 5> kOfSearches{"seconds", "proposals", "seed", "threads",
                                                          "chains"};
    if (planner->searches && std::ranges::find(kOfSearches, option) != kOfSearches.end()) continue;
    if (a.given(option) && std::ranges::find(mine, option) == mine.end())
      throw UsageError(fmt::format("search: --{} does not go with --algorithm {}{}", option, algorithm,
                                   planner->searches          ? ""
                                   : planner_named(algorithm) ? ", which does not search"
                                                              : " of pipelines"));
  }
}

namespace {

int plan_and_report(const Arguments& a, Streams& streams) {
  const std::string& algorithm = a.text("algorithm");
  if (a.has("stage-costs") && !a.has("model")) return report_stage_costs(a, streams);
  for (const char* file : {"output", "checkpoint", "search-log"}) {
    if (a.has(file)) require_writable(a.text(file));
  }
  const ModelRun run = model_run_of(a);
  const OperatorGraph asked = open_model(run.model);
  require_recompute(asked, recompute_of(a));
  const Topology topology = topology_of(a);
  const std::optional<Calibration> calibration = open_calibration(a, topology, streams.err);
  const CostModel costs(topology, pointer_to(calibration));
  const Planner* planner = planner_of(a);
  using Clock = std::chrono::steady_clock;
  const auto began = Clock::now();
  const PlannedPipeline proposal = planner->propose({a, run, asked, costs, streams.err});
  const double planned_s = std::chrono::duration<double>(Clock::now() - began).count();
  const OperatorGraph& graph = proposal.graph;
  const Plan plan{proposal.run.model, a.text("topology"), graph.fingerprint(), topology.fingerprint(),
                  proposal.options,   algorithm,          proposal.seed,       proposal.strategy};
  if (const auto reason = illegal(graph, plan.strategy, plan.options, topology)) throw InputError(*reason);

  Evaluator evaluator(graph, costs, plan.options);
  const BoundStrategy strategy = evaluator.builder().bind(plan.strategy);
  const PlanReport report = report_plan(evaluator, strategy);
  constexpr std::size_t kStrip = 96, kConfigs = 12;
  const std::optional<PipelineReport> pipeline = report_pipeline(evaluator, strategy, report.memory, kStrip);
  if (a.has("output") && !report.infeasible) write_file(a.text("output"), to_json(plan, graph, topology));
  const std::string profile = profile_note_of(a);
  if (a.given("json")) {
    Json json = Json::parse(to_json(report, topology));
    json["model"] = graph.name();
    json["topology"] = topology.name();
    json["best"] = algorithm;
    if (proposal.objective) json[proposal.objective->key] = proposal.objective->value;
    json["planner_wall_time_s"] = planned_s;
    json["planner_devices"] = proposal.devices;
    if (!proposal.note.empty()) json["note"] = proposal.note;
    if (proposal.proven) json["proven_optimal"] = *proposal.proven;
    if (!profile.empty()) json["profile_note"] = profile;
    if (pipeline) json["pipeline"] = Json::parse(to_json(*pipeline));
    if (!proposal.contributions.empty()) json["contributions"] = contributions_json(proposal);
    streams.out << json.dump(2) << "\n";
  } else {
    streams.out << fmt::format("{} on {} ({}), {}, planned by {} in {}\n\n", graph.name(), topology.name(),
                               devices_text(topology), batch_text(graph, plan.options), algorithm,
                               pretty(Seconds(planned_s)))
                << stage_table(proposal) << "\n"
                << contributions_text(proposal);
    if (!proposal.trials.empty()) streams.out << proposal.trials << "\n";
    if (proposal.objective) streams.out << fmt::format("  {}, says the planner\n", proposal.objective->text);
    if (!proposal.note.empty()) streams.out << fmt::format("  {}\n", proposal.note);
    if (!profile.empty()) streams.out << fmt::format("  {}\n", profile);
    if (const std::string idle = idle_devices(plan.strategy, topology); !idle.empty())
      streams.out << fmt::format("  {}\n", idle);
    streams.out << "\nsimulated\n"
                << to_text(report, topology) << "\n"
                << (pipeline ? to_text(*pipeline) + "\n" : "")
                << configs_text(graph, strategy, kConfigs, plan.options.pipeline);
  }
  if (!report.infeasible) return 0;
  streams.err << "pipesim: the plan does not fit: " << *report.infeasible << "\n";
  return 1;
}

}  // namespace

int run_planner(const Arguments& a, Streams& streams) {
  try {
    return plan_and_report(a, streams);
  } catch (const Interrupted& end) {
    streams.err << fmt::format("pipesim: {}\n", end.what());
    return kInterruptedStatus;
  }
}

}  // namespace pipesim
