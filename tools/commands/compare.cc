#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <optional>
#include <ostream>

#include "search/baselines/baselines.h"
#include "search/lower_bound/lower_bound.h"
#include "sim/base/errors.h"
#include "tools/cli/command.h"
#include "tools/cli/table.h"
#include "tools/cli/text.h"
#include "tools/commands/execution_commands.h"
#include "tools/commands/options/run_options.h"
#include "tools/commands/options/shared_options.h"
#include "tools/inputs/calibration_use.h"
#include "tools/inputs/model_and_topology.h"
#include "tools/inputs/plan_set.h"
#include "tools/reports/baselines_report.h"
#include "tools/reports/plan_reason.h"
#include "tools/reports/plan_report.h"
#include "tools/searching/hints.h"

namespace pipesim {
namespace {

using Json = nlohmann::ordered_json;

// Shares of the critical path and the fullest device of each baseline, side by side.
std::string details_table(Evaluator& evaluator, const std::vector<Baseline>& baselines) {
  Table table({{"baseline"},
               {"compute", Align::Right},
               {"communication", Align::Right},
               {"waiting", Align::Right},
               {"peak memory", Align::Right},
               {"tasks", Align::Right}});
  for (const Baseline& b : baselines) {
    if (!b.scored) continue;
    const PlanReport r = report_plan(evaluator, evaluator.contents().bind(b.scored->strategy));
    Bytes peak;
    for (const DeviceMemory& m : r.memory) peak = std::max(peak, m.peak);
    table.add({b.name, pretty(to_seconds(r.critical.compute)), pretty(to_seconds(r.critical.communication)),
               pretty(to_seconds(r.critical.waiting)), pretty(peak), std::to_string(r.num_tasks)});
  }
  return "on the critical path, and in memory:\n" + table.str(2);
}

Json json_of(Evaluator& evaluator, const std::vector<Baseline>& baselines) {
  Json list = Json::array();
  for (const Baseline& b : baselines) {
    Json row{{"name", b.name}};
    if (b.scored) {
      row.update(json_of(report_plan(evaluator, evaluator.contents().bind(b.scored->strategy)),
                         evaluator.topology()));
    }
    if (!b.infeasible.empty()) row["infeasible"] = b.infeasible;
    list.push_back(std::move(row));
  }
  return list;
}

// How the calibration covers the fastest baseline that fits, else the first.
std::optional<CalibrationUse> use_of(Evaluator& evaluator, const std::vector<Baseline>& baselines) {
  const Baseline* chosen = nullptr;
  for (const Baseline& b : baselines) {
    if (!b.scored) continue;
    const bool fits = b.infeasible.empty(), better = chosen && fits && !chosen->infeasible.empty();
    const bool faster = chosen && fits && b.scored->evaluation.time < chosen->scored->evaluation.time;
    if (!chosen || better || faster) chosen = &b;
  }
  if (!chosen) return std::nullopt;
  const BoundStrategy strategy = evaluator.contents().bind(chosen->scored->strategy);
  report_plan(evaluator, strategy);
  return calibration_use(evaluator, strategy);
}

std::string bound_line(double bound, const std::vector<Baseline>& baselines) {
  std::string text = fmt::format("  lower bound of every plan: {}", pretty(Seconds(bound)));
  const Baseline* fastest = fastest_baseline(baselines);
  const std::string far =
      fastest ? far_above(to_nanoseconds(Seconds(bound)), fastest->scored->evaluation.time, "") : "";
  if (!far.empty()) text += fmt::format("\n  {} is {}", fastest->name, far);
  return text + "\n\n";
}

// What to try where no baseline fits.
std::string fit_line(Evaluator& evaluator, const std::vector<Baseline>& baselines, const ModelRun& run) {
  const Baseline* nearest = nearest_baseline(baselines);
  if (!nearest || fastest_baseline(baselines)) return "";
  return fmt::format("  no baseline fits; {} is the nearest{}\n\n", nearest->name,
                     hints_text(hints_to_fit(evaluator, *nearest, run, "")));
}

// Why the fastest baseline is faster than the next one that is another plan; nothing where there is none.
struct FastestReason {
  std::string name;
  PlanReason reason;
};
std::optional<FastestReason> why_fastest(Evaluator& evaluator, const std::vector<Baseline>& baselines) {
  const Baseline* fastest = fastest_baseline(baselines);
  const Baseline* next = nullptr;
  if (!fastest) return std::nullopt;
  for (const Baseline& b : baselines) {
    if (!b.scored || !b.infeasible.empty() || b.scored->strategy == fastest->scored->strategy) continue;
    if (!next || b.scored->evaluation.time < next->scored->evaluation.time) next = &b;
  }
  if (!next) return std::nullopt;
  const BoundStrategy before = evaluator.contents().bind(next->scored->strategy),
                      after = evaluator.contents().bind(fastest->scored->strategy);
  const PlanCosts costs_before = plan_costs(evaluator, before), costs_after = plan_costs(evaluator, after);
  const PlanOptions& options = evaluator.contents().options();
  return FastestReason{fastest->name,
                       plan_reason(evaluator.graph(), {next->name, before, costs_before, options},
                                   {fastest->name, after, costs_after, options}, "")};
}

std::string why_text(Evaluator& evaluator, const std::vector<Baseline>& baselines) {
  const auto why = why_fastest(evaluator, baselines);
  constexpr std::size_t kWidth = 110, kIndent = 2;
  return why ? wrap(fmt::format("why {} is the fastest: {}", why->name, to_text(why->reason)), kWidth,
                    kIndent)
             : "";
}

// No plan is faster than it; that holds for analytic durations only.
std::optional<double> bound_of(const CostModel& costs, const OperatorGraph& graph,
                               const PlanOptions& options) {
  if (costs.calibrated()) return std::nullopt;
  return to_seconds(lower_bound(graph, costs, options)).value;
}

// Options of the run without --execute would be ignored.
void require_execute(const Arguments& arguments) {
  std::vector<Option> of_run = plan_set_options("", "0");
  for (Option& o : run_options()) of_run.push_back(std::move(o));
  for (const Option& o : of_run) {
    if (arguments.given(o.name)) throw UsageError(fmt::format("compare: --{} needs --execute", o.name));
  }
}

// What the command line asks for without --execute.
struct CompareRun {
  ModelRun model;
  OperatorGraph graph;
  Topology topology;
  PlanOptions options;
  std::string calibration, profile_note;  // "": none
  bool json;
};

CompareRun compare_run_of(const Arguments& a) {
  require_execute(a);
  ModelRun model = model_run_of(a);
  OperatorGraph graph = open_model(model.model);
  Topology topology = topology_of(a);
  PlanOptions options = plan_options_of(a, model);
  require_recompute(graph, options.recompute);
  return {std::move(model),
          std::move(graph),
          std::move(topology),
          std::move(options),
          text_or_none(a, "calibration"),
          profile_note_of(a),
          a.given("json")};
}

int compare(const CompareRun& run, Streams& streams) {
  const auto& [model, graph, topology, options, file, profile, as_json] = run;
  const std::optional<Calibration> calibration = open_calibration(file, topology, streams.err);
  const CostModel costs(topology, pointer_to(calibration));
  Evaluator evaluator(graph, costs, options);
  const std::vector<Baseline> baselines = score_baselines(evaluator);
  const std::optional<double> bound = bound_of(costs, graph, options);
  if (as_json) {
    Json json{
        {"model", graph.name()}, {"topology", topology.name()}, {"num_devices", topology.num_devices()}};
    if (bound) json["lower_bound_s"] = *bound;
    if (!profile.empty()) json["profile_note"] = profile;
    json["baselines"] = json_of(evaluator, baselines);
    if (const auto why = why_fastest(evaluator, baselines)) {
      json["reason"] = {{"plan", why->name}};
      json["reason"].update(json_of(why->reason));
    }
    if (const auto use = calibration ? use_of(evaluator, baselines) : std::nullopt)
      json["calibration"] = json_of(*use);
    streams.out << json.dump(2) << "\n";
    return 0;
  }
  streams.out << fmt::format("{} on {} ({}), {}\n\n", graph.name(), topology.name(), devices_text(topology),
                             batch_text(graph, options))
              << (profile.empty() ? "" : fmt::format("  {}\n\n", profile))
              << baselines_table(baselines, samples_per_iteration(graph, options))
              << why_text(evaluator, baselines) << (bound ? bound_line(*bound, baselines) : "\n")
              << fit_line(evaluator, baselines, model) << details_table(evaluator, baselines);
  if (const auto use = calibration ? use_of(evaluator, baselines) : std::nullopt)
    streams.out << "\nof the fastest baseline:\n" << durations_line(*use);
  return 0;
}

int run_compare(const Arguments& arguments, Streams& streams) {
  if (arguments.given("execute")) return run_compare_execution(arguments, streams);
  return compare(compare_run_of(arguments), streams);
}

}  // namespace

Command compare_command() {
  Command c;
  c.name = "compare";
  c.summary = "show all baselines of a model on a topology side by side";
  c.description =
      "Simulates the single-device, data-parallel, model-parallel and expert plans. For each it shows the "
      "iteration time, what the critical path consists of, and the memory of the fullest device, or why the "
      "plan does not fit.\n\nWith --execute it also runs the plans that fit, in turns, on the backend, and "
      "other plans that --plan and --random name. It shows predicted and measured times side by side, how "
      "well the predicted order agrees with the measured one (Spearman's rank correlation), and how much "
      "slower the plan predicted best is than the one measured best.";
  c.options = model_and_topology_options();
  for (Option& o : plan_options()) c.options.push_back(std::move(o));
  c.options.push_back(calibration_option());
  c.options.push_back({.name = "execute",
                       .argument = "",
                       .default_value = "",
                       .help = "run the plans as well",
                       .details = "--plan, --random and the other options of execution need --execute.",
                       .group = OptionGroup::Execution});
  for (Option& o : plan_set_options("run", "0")) c.options.push_back(std::move(o));
  for (Option& o : run_options()) c.options.push_back(std::move(o));
  c.options.push_back(json_option());
  c.common = {"model", "topology", "batch", "microbatches", "execute", "backend", "json"};
  c.examples = {{"pipesim compare --model resnet101 --topology p100-4x4", "how good are the usual plans?"},
                {"pipesim compare --execute --model lenet:batch=32 --topology cpu:2 --calibration lenet.db",
                 "and were they predicted well?"}};
  c.run = run_compare;
  return c;
}

}  // namespace pipesim
