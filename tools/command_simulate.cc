#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <optional>
#include <ostream>
#include <sstream>

#include "search/baselines/baselines.h"
#include "sim/base/errors.h"
#include "sim/base/files.h"
#include "taskgraph/dot.h"
#include "tools/calibration_use.h"
#include "tools/commands.h"
#include "tools/inputs.h"
#include "tools/plan_report.h"
#include "tools/plan_trace.h"
#include "tools/run_settings.h"

namespace pipesim {
namespace {

using Json = nlohmann::ordered_json;

// What is simulated: a plan file on its own model and topology (or others that are told), or a baseline.
struct Subject {
  OperatorGraph graph;
  Topology topology;
  Plan plan;
  std::optional<Calibration> calibration;
};

Subject subject_of(const Arguments& a, std::ostream& err) {
  if (a.has("plan")) {
    if (a.has("baseline")) throw UsageError("simulate: --plan and --baseline exclude each other");
    const PlanFile file = PlanFile::load(a.text("plan"));
    OperatorGraph graph = open_model(a.has("model") ? a.text("model") : file.model());
    Topology topology = open_topology(a.has("topology") ? a.text("topology") : file.topology());
    Plan plan = file.read(graph, topology);
    std::optional<Calibration> calibration = open_calibration(a, topology, err);
    return {std::move(graph), std::move(topology), std::move(plan), std::move(calibration)};
  }
  if (!a.has("baseline"))
    throw UsageError("simulate: --plan FILE is missing, or --model, --topology and --baseline");
  Subject s{open_model(required_text(a, "model")), open_topology(required_text(a, "topology")), {}, {}};
  s.calibration = open_calibration(a, s.topology, err);
  std::vector<std::string> names;
  for (const std::string_view name : baseline_names()) names.emplace_back(name);
  s.plan.found_by = a.choice("baseline", names);
  s.plan.strategy =
      baseline_strategy(s.plan.found_by, s.graph, CostModel(s.topology, pointer_to(s.calibration)));
  return s;
}

int run_simulate(const Arguments& arguments, Streams& streams) {
  for (const char* file : {"trace", "dot"}) {
    if (arguments.has(file)) require_writable(arguments.text(file));
  }
  const Subject s = subject_of(arguments, streams.err);
  const CostModel costs(s.topology, pointer_to(s.calibration));
  Evaluator evaluator(s.graph, costs, s.plan.options);
  const BoundStrategy strategy = evaluator.builder().bind(s.plan.strategy);
  const PlanReport report = report_plan(evaluator, strategy);
  if (arguments.has("trace")) write_file(arguments.text("trace"), trace_of(evaluator));
  if (arguments.has("dot")) {
    std::ostringstream dot;
    write_dot(dot, evaluator.task_graph(), s.graph, s.topology);
    write_file(arguments.text("dot"), dot.str());
  }
  constexpr std::size_t kSteps = 8, kExplained = 40, kConfigs = 12;
  if (arguments.has("explain")) {
    streams.out << explanation_of(evaluator, arguments.text("explain"), kExplained);
  } else if (arguments.given("json")) {
    Json json = Json::parse(to_json(report, s.topology));
    json["model"] = s.graph.name();
    json["topology"] = s.topology.name();
    json["seed"] = s.plan.seed;
    json["found_by"] = s.plan.found_by;
    if (s.calibration) json["calibration"] = Json::parse(to_json(calibration_use(evaluator, strategy)));
    streams.out << json.dump(2) << "\n";
  } else {
    streams.out << fmt::format("{} on {} ({} devices), batch {}{}\n\n", s.graph.name(), s.topology.name(),
                               s.topology.num_devices(), s.graph.batch(),
                               s.plan.found_by.empty() ? "" : ", plan by " + s.plan.found_by)
                << to_text(report, s.topology)
                << (s.calibration ? durations_line(calibration_use(evaluator, strategy)) : "") << "\n"
                << configs_text(s.graph, strategy, kConfigs) << "\n"
                << critical_steps_text(evaluator, kSteps);
  }
  if (!report.infeasible) return 0;
  streams.err << "pipesim: the plan does not fit: " << *report.infeasible << "\n";
  return 1;
}

}  // namespace

Command simulate_command() {
  Command c;
  c.name = "simulate";
  c.summary = "simulate one iteration of a plan and show where the time goes";
  c.description =
      "Reads a plan file, builds its tasks and runs them in virtual time. The plan names its model and "
      "topology; "
      "--model and --topology take their place, and must have the same operators and devices.\n\n"
      "The critical path is the chain of tasks that made the iteration as long as it is. Its time is "
      "compute, "
      "communication, or waiting (a transfer was ready and stood in line for a busy link).\n\n"
      "A plan that does not fit into memory is reported all the same, with exit status 1.";
  c.options = {
      {"plan", "FILE", "", "the plan to simulate, as search -o writes it"},
      {"baseline", "NAME", "", "simulate a baseline instead of a plan, with --model and --topology"}};
  for (Option& o : model_and_topology_options()) c.options.push_back(std::move(o));
  c.options.push_back(calibration_option());
  c.options.push_back({"trace", "FILE", "", "write the timeline for ui.perfetto.dev or chrome://tracing"});
  c.options.push_back({"dot", "FILE", "", "write the task graph for Graphviz"});
  c.options.push_back(
      {"explain", "TASK", "", "why did a task start when it did? TASK is an id or part of its text"});
  c.options.push_back({"json", "", "", "print one JSON object instead of text"});
  c.examples = {
      {"pipesim simulate --plan plan.json --trace trace.json", "look at the timeline"},
      {"pipesim simulate --plan plan.json --explain \"fc6 forward on node0.gpu0\"", "what did it wait for?"},
      {"pipesim simulate --model alexnet --topology p100-4x4 --baseline data-parallel", "a baseline"}};
  c.run = run_simulate;
  return c;
}

}  // namespace pipesim
