#include "tools/planner_search.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <ostream>

#include "search/baselines/baselines.h"
#include "search/planners/gpipe.h"
#include "search/planners/machine_levels.h"
#include "search/planners/pipedream.h"
#include "search/planners/pipeline_trials.h"
#include "sim/base/errors.h"
#include "sim/base/files.h"
#include "taskgraph/plan_json.h"
#include "tools/calibration_use.h"
#include "tools/inputs.h"
#include "tools/pipeline_report.h"
#include "tools/plan_report.h"
#include "tools/run_settings.h"
#include "tools/status_line.h"
#include "tools/table.h"

namespace pipesim {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::size_t kMostCuts = 3'000;  // more take PipeDream's dynamic program minutes

// What a planner says, and the plan made of it.
struct PlannedPipeline {
  PipelinedStrategy plan;
  std::vector<std::int64_t> devices;  // of each stage, as planned; the plan may use fewer
  std::optional<Seconds> objective;   // of the planner's own model
  std::string note;                   // "" or a sentence
  std::string trials;                 // "" or a table of what was simulated
};

std::vector<std::string> options_of(const std::string& algorithm) {
  if (algorithm == "gpipe") return {"stages", "chunks", "schedule"};
  if (algorithm == "pipedream")
    return {"schedule", "cost-model", "activation-transfers", "straight", "use-fewer", "memory-limit"};
  return {};
}

PipeDreamOptions pipedream_options(const Arguments& a) {
  PipeDreamOptions options;
  if (a.has("activation-transfers"))
    options.activation_compression = a.number("activation-transfers", 1e-3, 1e6);
  options.straight = a.given("straight");
  options.fewer_machines = a.given("use-fewer");
  if (a.has("memory-limit")) {
    try {
      options.memory_limit = parse_bytes(a.text("memory-limit"));
    } catch (const InputError& error) {
      throw UsageError(fmt::format("--memory-limit: {}", error.what()));
    }
  }
  return options;
}

// Stages of operators from stages of layers. What the planner left out joins the first that it feeds, or what
// feeds it where it feeds nobody.
std::vector<std::int32_t> stages_of_operators(const OperatorGraph& graph, const LayerGraph& layers,
                                              const std::vector<PipelineStage>& stages) {
  std::map<std::string, std::int32_t> stage_of_layer;
  for (std::size_t s = 0; s < stages.size(); ++s) {
    for (const std::int32_t layer : stages[s].layers)
      stage_of_layer[layers[layer].name] = static_cast<std::int32_t>(s);
  }
  constexpr std::int32_t kUnknown = -1;
  std::vector<std::int32_t> stage_of;
  for (const Operator& op : graph.operators()) {
    const auto known = stage_of_layer.find(op.name);
    stage_of.push_back(known == stage_of_layer.end() ? kUnknown : known->second);
  }
  for (std::size_t i = stage_of.size(); i-- > 0;) {
    if (stage_of[i] != kUnknown) continue;
    for (const TensorUse& use : graph.operators()[i].uses) {
      if (use.role != Role::Output) continue;
      for (const UseRef reader : graph.consumers(use.tensor)) {
        const std::int32_t stage = stage_of[reader.op.index()];
        if (stage != kUnknown && (stage_of[i] == kUnknown || stage < stage_of[i])) stage_of[i] = stage;
      }
    }
  }
  for (std::size_t i = 0; i < stage_of.size(); ++i) {
    if (stage_of[i] != kUnknown) continue;
    stage_of[i] = 0;
    for (const TensorUse& use : graph.operators()[i].uses) {
      const OperatorId producer = graph.tensor(use.tensor).producer;
      if (use.role == Role::Input && producer.valid())
        stage_of[i] = std::max(stage_of[i], stage_of[producer.index()]);
    }
  }
  return stage_of;
}

// The dynamic program's steps: cuts² · machines², of inner levels once more for every cut.
void require_little_work(std::size_t cuts, const std::vector<MachineLevel>& levels) {
  constexpr double kMostSteps = 1e11;  // some minutes
  const auto number = static_cast<double>(cuts);
  double steps = 0;
  for (std::size_t l = 0; l < levels.size(); ++l) {
    const auto machines = static_cast<double>(levels[l].machines);
    steps += number * number * machines * machines * (l + 1 < levels.size() ? number : 1);
  }
  if (steps <= kMostSteps) return;
  throw InputError(
      fmt::format("pipedream: {} cuts on {} machines of one level take its dynamic program {:.0e} steps, "
                  "allowed: up to {:.0e}",
                  cuts, std::ranges::max(levels, {}, &MachineLevel::machines).machines, steps, kMostSteps));
}

PlannedPipeline propose_pipedream(const Arguments& a, const OperatorGraph& graph, const CostModel& costs) {
  const LayerGraph layers = without_inputs(layers_of(graph, costs, DeviceId(0)));
  if (layers.size() == 0)
    throw InputError(fmt::format("pipedream: model \"{}\" has no layers but inputs", graph.name()));
  PlannedPipeline proposal;
  std::optional<std::vector<Cut>> cuts = cuts_of(layers, kMostCuts);
  if (!cuts) {
    cuts = cuts_of_order(layers);
    proposal.note = fmt::format(
        "the model can be cut in more than {} ways; only the {} cuts of one order of its layers were looked "
        "at",
        kMostCuts, cuts->size());
  }
  const std::vector<MachineLevel> levels = machine_levels(costs.topology());
  require_little_work(cuts->size(), levels);
  const std::optional<PipeDreamPlan> found = pipedream(*cuts, levels, pipedream_options(a));
  if (!found) {
    throw InputError(
        "pipedream: no pipeline keeps to the memory limit, or the model has too few cuts to use all devices; "
        "allow --use-fewer or a larger --memory-limit");
  }
  std::vector<StageGroup> groups;
  for (const PipelineStage& stage : found->stages) {
    groups.emplace_back();
    for (const std::int64_t d : stage.devices) groups.back().emplace_back(static_cast<std::size_t>(d));
    proposal.devices.push_back(stage.replicas());
  }
  proposal.objective = found->period;
  proposal.plan =
      data_parallel_stages(graph, costs.topology(),
                           {a.text("schedule"), stages_of_operators(graph, layers, found->stages)}, groups);
  return proposal;
}

std::vector<std::int64_t> shares(const CostModel& costs, const PipelineDemand& demand) {
  const auto devices = static_cast<std::int64_t>(costs.topology().num_devices());
  return std::vector<std::int64_t>(static_cast<std::size_t>(demand.stages),
                                   devices / (demand.stages / demand.chunks));
}

std::string trials_text(const std::vector<PipelineTrial>& trials) {
  constexpr std::size_t kShown = 8;
  Table table(
      {{"stages", Align::Right}, {"groups", Align::Right}, {"schedule"}, {"iteration", Align::Right}, {""}});
  for (std::size_t i = 0; i < std::min(kShown, trials.size()); ++i) {
    const PipelineTrial& t = trials[i];
    table.add({fmt::format("{}", t.demand.stages), fmt::format("{}", t.demand.stages / t.demand.chunks),
               t.demand.stages > 1 ? t.demand.schedule : "data parallelism",
               pretty(to_seconds(t.evaluation.time)), t.evaluation.feasible() ? "" : "does not fit"});
  }
  const std::size_t more = trials.size() - std::min(kShown, trials.size());
  return fmt::format("{} pipelines were simulated\n", trials.size()) + table.str(2) +
         (more > 0 ? fmt::format("  … and {} more\n", more) : "");
}

// The fastest that fits, by simulation.
PipelineDemand best_demand(const Arguments& a, const OperatorGraph& graph, const CostModel& costs,
                           std::ostream& err, std::string& text) {
  std::vector<std::string> schedules;
  if (a.given("schedule")) {
    schedules.push_back(a.text("schedule"));
  } else {
    schedules = plan_schedules();
  }
  StatusLine status(err);
  std::size_t tried = 0;
  const std::vector<PipelineTrial> trials =
      try_pipelines(graph, costs, plan_options_of(a), schedules, [&](const PipelineTrial& t) {
        ++tried;
        if (status.due()) status.show(fmt::format("{} pipelines, {} stages", tried, t.demand.stages));
      });
  if (trials.empty()) {
    throw InputError(fmt::format(
        "schedule \"{}\": no pipeline of this model, topology and number of microbatches can have it",
        schedules.front()));
  }
  text = trials_text(trials);
  return trials.front().demand;
}

PlannedPipeline propose_gpipe(const Arguments& a, const OperatorGraph& graph, const CostModel& costs,
                              std::ostream& err) {
  if (!a.has("stages") && a.given("chunks")) throw UsageError("search: --chunks needs --stages");
  PlannedPipeline planned;
  const PipelineDemand demand =
      a.has("stages") ? pipeline_demand_of(a) : best_demand(a, graph, costs, err, planned.trials);
  planned.plan = gpipe_strategy(graph, costs, demand);
  planned.devices = shares(costs, demand);
  return planned;
}

// Stages that stand in a run, by their first and last operators.
Table stage_table(const OperatorGraph& graph, const PlannedPipeline& planned) {
  const PipelinedStrategy& plan = planned.plan;
  Table table({{"stage", Align::Right}, {"devices"}, {"from"}, {"to"}});
  for (std::int32_t s = 0; s < plan.pipeline.num_stages(); ++s) {
    const std::vector<std::int32_t>& stage_of = plan.pipeline.stage_of;
    const auto first = static_cast<std::size_t>(std::ranges::find(stage_of, s) - stage_of.begin());
    std::size_t last = stage_of.size() - 1;
    while (stage_of[last] != s) --last;
    const auto used = static_cast<std::int64_t>(plan.strategy[first].devices.size());
    const std::int64_t meant = planned.devices[static_cast<std::size_t>(s)];
    const std::string devices =
        used == meant ? fmt::format("{}", used)
                      : fmt::format("{} of {}: a microbatch can't be split in more", used, meant);
    table.add({fmt::format("{}", s), devices, graph.operators()[first].name, graph.operators()[last].name});
  }
  return table;
}

}  // namespace

bool is_planner(const std::string& algorithm) { return !options_of(algorithm).empty(); }

std::vector<Option> planner_options() {
  return {{"stages", "N", "",
           "gpipe: so many stages of about equal compute time, on equal shares of the devices; without it, "
           "all numbers that divide the devices are simulated, under --schedule or under all of them"},
          {"chunks", "N", "1", "gpipe: so many stages share their devices (schedule interleaved)"},
          {"schedule", "NAME", "1f1b", "of a planned pipeline: " + plan_schedule_names()},
          {"cost-model", "NAME", "paper", "pipedream: paper is the published objective, with its faults"},
          {.name = "activation-transfers",
           .argument = "COMPRESSION_RATIO",
           .default_value = "",
           .help = "pipedream: activations that cross a cut take time, divided by the ratio (1 without it)",
           .implied = "1"},
          {"straight", "", "", "pipedream: no stage on more than one device"},
          {"use-fewer", "", "", "pipedream: devices may stay idle"},
          {"memory-limit", "SIZE", "", "pipedream: of what a device keeps for all batches in flight"}};
}

void check_planner_options(const Arguments& a) {
  const std::string& algorithm = a.text("algorithm");
  const std::vector<std::string> mine = options_of(algorithm);
  for (const Option& option : planner_options()) {
    if (a.given(option.name) && std::ranges::find(mine, option.name) == mine.end())
      throw UsageError(fmt::format("search: --{} does not go with --algorithm {}", option.name, algorithm));
  }
  if (mine.empty()) return;
  (void)a.choice("cost-model", {"paper"});
  (void)a.choice("schedule", plan_schedules());
  for (const char* option :
       {"seconds", "proposals", "seed", "threads", "chains", "moves", "search-log", "candidates"}) {
    if (a.given(option))
      throw UsageError(fmt::format("search: --{} does not go with --algorithm {}, which does not search",
                                   option, algorithm));
  }
}

int run_planner(const Arguments& a, Streams& streams) {
  const std::string& algorithm = a.text("algorithm");
  if (a.has("output")) require_writable(a.text("output"));
  const OperatorGraph graph = open_model(required_text(a, "model"));
  const Topology topology = open_topology(required_text(a, "topology"));
  const std::optional<Calibration> calibration = open_calibration(a, topology, streams.err);
  const CostModel costs(topology, pointer_to(calibration));
  using Clock = std::chrono::steady_clock;
  const auto began = Clock::now();
  const PlannedPipeline proposal =
      algorithm == "gpipe" ? propose_gpipe(a, graph, costs, streams.err) : propose_pipedream(a, graph, costs);
  const double planned_s = std::chrono::duration<double>(Clock::now() - began).count();
  Plan plan{a.text("model"),
            a.text("topology"),
            graph.fingerprint(),
            topology.fingerprint(),
            plan_options_of(a),
            algorithm,
            0,
            proposal.plan.strategy};
  plan.options.pipeline = proposal.plan.pipeline;
  if (const auto reason = illegal(graph, plan.strategy, plan.options, topology)) throw InputError(*reason);

  Evaluator evaluator(graph, costs, plan.options);
  const BoundStrategy strategy = evaluator.builder().bind(plan.strategy);
  const PlanReport report = report_plan(evaluator, strategy);
  constexpr std::size_t kStrip = 96, kConfigs = 12;
  const std::optional<PipelineReport> pipeline = report_pipeline(evaluator, strategy, report.memory, kStrip);
  if (a.has("output") && !report.infeasible) write_file(a.text("output"), to_json(plan, graph, topology));
  if (a.given("json")) {
    Json json = Json::parse(to_json(report, topology));
    json["model"] = graph.name();
    json["topology"] = topology.name();
    json["best"] = algorithm;
    if (proposal.objective) json["planner_objective_s"] = proposal.objective->value;
    json["planner_wall_time_s"] = planned_s;
    json["planner_devices"] = proposal.devices;
    if (!proposal.note.empty()) json["note"] = proposal.note;
    json["pipeline"] = Json::parse(to_json(*pipeline));
    streams.out << json.dump(2) << "\n";
  } else {
    streams.out << fmt::format("{} on {} ({} devices), {}, planned by {} in {}\n\n", graph.name(),
                               topology.name(), topology.num_devices(), batch_text(graph, plan.options),
                               algorithm, pretty(Seconds(planned_s)))
                << stage_table(graph, proposal).str(2) << "\n";
    if (!proposal.trials.empty()) streams.out << proposal.trials << "\n";
    if (proposal.objective)
      streams.out << fmt::format("  {} a batch, says the planner\n", pretty(*proposal.objective));
    if (!proposal.note.empty()) streams.out << fmt::format("  {}\n", proposal.note);
    if (const std::string idle = idle_devices(plan.strategy, topology); !idle.empty())
      streams.out << fmt::format("  {}\n", idle);
    streams.out << "\nsimulated\n"
                << to_text(report, topology) << "\n"
                << to_text(*pipeline) << "\n"
                << configs_text(graph, strategy, kConfigs);
  }
  if (!report.infeasible) return 0;
  streams.err << "pipesim: the plan does not fit: " << *report.infeasible << "\n";
  return 1;
}

}  // namespace pipesim
