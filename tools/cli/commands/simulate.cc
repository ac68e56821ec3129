#include <fmt/format.h>

#include <array>
#include <cctype>
#include <charconv>
#include <nlohmann/json.hpp>
#include <ostream>
#include <sstream>

#include "sim/base/files.h"
#include "taskgraph/drawing/task_graph_dot.h"
#include "tools/analysis/inputs/calibration_use.h"
#include "tools/analysis/inputs/model_and_topology.h"
#include "tools/analysis/inputs/prediction_interval.h"
#include "tools/analysis/inputs/subject.h"
#include "tools/analysis/plans/memory_list.h"
#include "tools/analysis/plans/pipeline_report.h"
#include "tools/analysis/plans/plan_report.h"
#include "tools/analysis/plans/task_explanation.h"
#include "tools/analysis/plans/task_names.h"
#include "tools/cli/base/command.h"
#include "tools/cli/options/framework_options.h"
#include "tools/cli/options/model_options.h"
#include "tools/cli/options/plan_output.h"
#include "tools/cli/options/shared_options.h"
#include "tools/cli/options/subject_options.h"
#include "tools/cli/searching/hints.h"
#include "tools/render/inputs/calibration_use_text.h"
#include "tools/render/inputs/plan_origin_text.h"
#include "tools/render/inputs/prediction_interval_text.h"
#include "tools/render/plans/breakdown_text.h"
#include "tools/render/plans/memory_list_text.h"
#include "tools/render/plans/pipeline_report_text.h"
#include "tools/render/plans/plan_report_text.h"
#include "tools/render/plans/plan_trace.h"
#include "tools/render/plans/task_explanation_text.h"

namespace pipesim {
namespace {

using Json = nlohmann::ordered_json;

// What the command line asks for.
struct SimulateRun {
  Subject subject;
  std::optional<ModelRun> of_baseline;      // nothing where a plan file is simulated
  std::string output, trace, dot, explain;  // files, and a task; "": none
  std::optional<double> tokens;
  bool json, memory;
  FlopsCounting counting;
  const Framework* framework;               // nullptr: none was asked for
  std::string model_note;                   // model_note_of()
  std::vector<std::string> model_left_out;  // left_out_of_config()
};

SimulateRun simulate_run_of(const Arguments& a, std::ostream& err) {
  for (const char* file : {"output", "trace", "dot"}) {
    if (a.has(file)) require_writable(a.text(file));
  }
  return {subject_of("simulate", a, err),
          a.has("baseline") ? std::optional(model_run_of(a)) : std::nullopt,
          text_or_none(a, "output"),
          text_or_none(a, "trace"),
          text_or_none(a, "dot"),
          text_or_none(a, "explain"),
          a.has("tokens") ? std::optional(tokens_of(a)) : std::nullopt,
          a.given("json"),
          a.given("memory"),
          flops_counting_of(framework_of(a)),
          framework_of(a),
          model_note_of(a),
          a.has("model") ? left_out_of_config(with_settings(a.text("model"), a.texts("set")))
                         : std::vector<std::string>()};
}

std::vector<std::string> hints_of(const SimulateRun& run, Evaluator& evaluator) {
  const Plan& plan = run.subject.plan;
  if (!run.of_baseline || plan.options.pipeline)
    return hints_to_fit(evaluator, plan.strategy, nullptr, plan.found_by == "recipe");
  const Baseline baseline{plan.found_by, Scored<Strategy>{plan.strategy, {}}, ""};
  return hints_to_fit(evaluator, baseline, *run.of_baseline, nullptr);
}

int run_simulate(const Arguments& arguments, Streams& streams) {
  const SimulateRun run = simulate_run_of(arguments, streams.err);
  const Subject& s = run.subject;
  if (!run.model_note.empty()) streams.err << fmt::format("pipesim: {}\n", run.model_note);
  const CostModel costs(s.topology, pointer_to(s.calibration), s.plan.runtime);
  Evaluator evaluator(s.graph, costs, s.plan.options);
  const BoundStrategy strategy = evaluator.contents().bind(s.plan.strategy);
  const bool every_task = run.memory || !run.trace.empty() || !run.dot.empty() || !run.explain.empty();
  const PlanReport report = every_task ? report_plan_in_full(evaluator, strategy, run.counting)
                                       : report_plan(evaluator, strategy, run.counting);
  const SimulatedPart& part = *report.part;
  Plan plan = s.plan;
  plan.recipe = report.recipe;
  give_plan(streams, run.output, plan, s.graph, s.topology);
  if (!run.trace.empty()) write_file(run.trace, trace_of(part));
  if (!run.dot.empty()) {
    std::ostringstream dot;
    dot.exceptions(std::ios::badbit);  // where memory runs out, say so
    write_dot(dot, part.task_graph(), s.topology, TaskNames(part, strategy));
    write_file(run.dot, dot.str());
  }
  constexpr std::size_t kSteps = 8, kExplained = 24, kConfigs = 12, kStrip = 96, kLines = 20;
  const Reliance reliance =
      reliance_of(s.graph, s.topology, s.calibration, s.plan, report.iteration_time, !s.profile_note.empty());
  const std::optional<PipelineReport> pipeline = report_pipeline(part, strategy, report.memory, kStrip);
  std::optional<MemoryList> memory;
  if (run.memory) memory = memory_list(part, report.memory);
  if (run.memory && !memory)
    streams.err << fmt::format(
        "pipesim: --memory: iterations of schedule {} follow on each other, and what is "
        "held then is not listed\n",
        s.plan.options.pipeline->schedule);
  if (memory) {
    const bool staged = s.plan.options.pipeline.has_value();
    const MemoryChoices choices =
        run.framework == nullptr
            ? MemoryChoices::all(staged)
            : MemoryChoices{run.framework->usual.recomputes, run.framework->usual.shardings_of(staged)};
    memory->switches = memory_switches(s.plan.strategy, part.contents(), memory->peak, choices);
  }
  std::optional<Json> document;
  if (!run.explain.empty()) {
    const TaskExplanation why = explain_task(part, strategy, run.explain);
    if (run.json) {
      give_document(streams, json_of(why, part, strategy));
    } else {
      streams.out << to_text(why, part, strategy, kExplained);
    }
  } else if (run.json) {
    Json& json = document.emplace(json_of(report, s.topology));
    json["model"] = s.graph.name();
    json["topology"] = s.topology.name();
    json["seed"] = s.plan.seed;
    json["found_by"] = s.plan.found_by;
    if (!s.profile_note.empty()) json["profile_note"] = s.profile_note;
    if (!run.model_note.empty()) json["model_note"] = run.model_note;
    if (!run.model_left_out.empty()) json["model_left_out"] = run.model_left_out;
    if (!s.others.empty()) json["made_for"] = json_of(s.others);
    if (run.tokens) json.update(training_json(report, s.topology, *run.tokens));
    if (pipeline) json["pipeline"] = json_of(*pipeline);
    if (memory) json["memory_at_peak"] = json_of(*memory, s.topology);
    if (s.calibration && s.calibration->has_durations())
      json["calibration"] = json_of(calibration_use(evaluator, strategy));
    json.update(json_of(reliance));
  } else {
    streams.out << fmt::format("{} on {} ({}), {}{}\n\n", s.graph.name(), s.topology.name(),
                               devices_text(s.topology), batch_text(s.graph, s.plan.options),
                               s.plan.found_by.empty() ? "" : ", plan by " + s.plan.found_by)
                << (s.profile_note.empty() ? "" : fmt::format("  {}\n\n", s.profile_note))
                << (s.others.empty() ? "" : to_text(s.others) + "\n") << to_text(report, s.topology)
                << (run.tokens ? training_text(report, s.topology, *run.tokens) : "")
                << (s.calibration && s.calibration->has_durations()
                        ? durations_line(calibration_use(evaluator, strategy))
                        : "")
                << to_text(reliance) << "\n"
                << (pipeline
                        ? to_text(*pipeline) + "\n" + memory_table(report.memory_of_stages, s.topology) + "\n"
                        : "")
                << (memory ? to_text(*memory, report.iteration_time, s.topology, kLines) + "\n" : "")
                << configs_text(s.graph, strategy, kConfigs, s.plan.options.pipeline) << "\n"
                << critical_steps_text(part, strategy, report.critical, kSteps);
  }
  std::vector<std::string> hints;
  if (report.infeasible) hints = hints_of(run, evaluator);
  if (document && report.infeasible) (*document)["hints"] = hints;
  if (document) give_document(streams, *document);
  if (!report.infeasible) return 0;
  streams.err << "pipesim: the plan does not fit: " << *report.infeasible << hints_text(hints) << "\n";
  return 1;
}

}  // namespace

Command simulate_command() {
  Command c;
  c.name = "simulate";
  c.summary = "simulate one iteration of a plan and show where the time goes";
  c.description =
      "Reads a plan file, builds its tasks and runs them in virtual time. The plan names its model and "
      "topology. --model and --topology replace them, if they have the same operators and devices of the "
      "same names. The report says what else differs, such as slower links or another batch.\n\nThe critical "
      "path is the chain of tasks that makes the iteration as long as it is. Its time is compute, "
      "launches by the host, communication, or waiting: a transfer was ready, and its link was busy.\n\nFor "
      "a pipeline the report "
      "has a table of stages, draws their time with a row for each group of devices, and says what fills "
      "the memory of each.\n\nA plan that does "
      "not fit into memory is reported too, with exit status 1.";
  c.options = subject_options("simulate");
  c.options.push_back(for_option());
  c.options.push_back(runtime_option());
  for (Option& o :
       in_group(OptionGroup::Output,
                {{.name = "output",
                .argument = "FILE",
                .default_value = "",
                .help = "write the plan to FILE",
                .letter = 'o'},
                 {.name = "tokens",
                 .argument = "N",
                 .default_value = "",
                 .help = "tell how long training takes with N tokens",
                 .details = "Such as 15T or 300B."},
                 {.name = "memory",
                 .argument = "",
                 .default_value = "",
                 .help = "list what the fullest device holds at its peak",
                 .details = "The largest comes first. A second table says what another recomputation or "
                            "state sharding would free, and how long an iteration would take."},
                 {"trace", "FILE", "", "write the timeline, for ui.perfetto.dev"},
                 {"dot", "FILE", "", "write the task graph for Graphviz"},
                 {.name = "explain",
                 .argument = "TASK",
                 .default_value = "",
                 .help = "explain why a task did not start earlier",
                 .details = "TASK is a task's number, its name, or part of it. Where several match, the one "
                            "that ends last is explained and the others are listed."},
                 json_option()}))
    c.options.push_back(std::move(o));
  c.common = {"plan", "recipe", "baseline", "model", "topology", "trace", "json"};
  c.examples = {
      {"pipesim simulate --plan nmt.plan.json --trace nmt.trace.json", "look at the timeline"},
      {"pipesim simulate --model alexnet --topology p100-4x4 --baseline data-parallel --explain "
       "\"linear1 update on node0.gpu0\"",
       "what did it wait for?"},
      {"pipesim simulate --model alexnet --topology p100-4x4 --baseline data-parallel", "a baseline"},
      {"pipesim simulate --model gpt:batch=4 --topology p100-4x4:1 --baseline data-parallel --stages 4 "
       "--microbatches 8",
       "a pipeline of four stages"},
      {"pipesim simulate --model llama3-8b --topology dgx-h100:1 --batch 64 --recipe tp4,dp2,sp,zero1 -o "
       "llama.plan.json",
       "a recipe as a plan file"}};
  c.run = run_simulate;
  return c;
}

}  // namespace pipesim
