#include "tools/cli/calibrating/calibrate_trace.h"

#include <fmt/format.h>

#include <memory>
#include <nlohmann/json.hpp>
#include <ostream>
#include <set>

#include "sim/base/errors.h"
#include "sim/base/files.h"
#include "tools/analysis/traces/comparing/step_comparison.h"
#include "tools/cli/base/status_line.h"
#include "tools/cli/options/model_options.h"
#include "tools/cli/options/plan_options.h"
#include "tools/cli/options/subject_options.h"
#include "tools/interop/traces/read_trace.h"
#include "tools/render/traces/step_comparison_text.h"
#include "tools/render/traces/trace_constants_text.h"
#include "tools/render/traces/trace_report.h"

namespace pipesim {
namespace {

void refuse_options_of_runs(const Command& command, const Arguments& a) {
  const std::set<std::string> allowed{"from-trace",         "model",     "set",           "topology",
                                      "memory-margin",      "recipe",    "batch",         "microbatch",
                                      "microbatches",       "optimizer", "gradient-type", "gradient-piece",
                                      "imbalance",          "runtime",   "keep-host",     "profile-batch",
                                      "gradient-reduction", "output",    "trace",         "json"};
  for (const Option& option : command.options) {
    if (a.given(option.name) && !allowed.contains(option.name))
      throw UsageError(fmt::format(
          "calibrate: --from-trace and --{} exclude each other: nothing is run, but read from the "
          "trace",
          option.name));
  }
  const auto needs = [&](const char* option, const char* other) {
    if (a.given(option) && !a.has(other))
      throw UsageError(fmt::format("calibrate: --{} needs --{}", option, other));
  };
  for (const char* option : {"model", "batch", "microbatch", "microbatches", "trace", "keep-host"})
    needs(option, "recipe");
  needs("recipe", "model");
  needs("recipe", "topology");
  needs("output", "topology");
}

std::vector<MeasuredTrace> traces_of(const Arguments& a, const Streams& streams) {
  std::vector<MeasuredTrace> traces;
  StatusLine status(streams);
  for (const std::string& file : a.texts("from-trace")) {
    if (status.due()) status.show("reading " + file);
    traces.push_back(read_trace(file));
  }
  status.clear();
  return traces;
}

// The step of a subject, as it was evaluated.
struct PredictedSubject {
  explicit PredictedSubject(Subject of)
      : subject(std::move(of)),
        costs(subject.topology, nullptr, subject.plan.runtime),
        part(*Evaluator(subject.graph, costs, subject.plan.options)
                  .evaluate(subject.plan.strategy, {.extent = Extent::All, .part = Labels::Make})
                  .part) {}
  Subject subject;
  CostModel costs;
  SimulatedPart part;
};

// Returns the device of the trace's rank, or the first one where the rank is not known.
DeviceId predicted_device(const Topology& topology, const MeasuredTrace& trace) {
  const bool known = trace.rank >= 0 && trace.rank < static_cast<std::int64_t>(topology.num_devices());
  return DeviceId(known ? static_cast<std::size_t>(trace.rank) : 0);
}

StepComparison comparison_of(PredictedSubject& predicted, DeviceId device, const DeviceAnalysis& measured,
                             const MeasuredTrace& trace) {
  const std::size_t number = measured.typical_step();
  const TracedStep& step = measured.device.steps[number];
  StepComparison comparison;
  try {
    comparison = compare_steps(predicted_work(predicted.part, predicted.subject.plan, device),
                               measured_work(trace, step, measured.steps[number]));
  } catch (const InputError& error) {
    throw InputError(fmt::format("{}: {}", trace.file, error.what()));
  }
  const Subject& s = predicted.subject;
  comparison.predicted_name =
      fmt::format("{} on {} by {}", s.graph.name(), s.topology.device(device).name, s.plan.runtime.name);
  comparison.measured_name = step.name;
  return comparison;
}

}  // namespace

std::vector<Option> calibrate_trace_options() {
  return {{.name = "from-trace",
           .argument = "FILE",
           .default_value = "",
           .help = "read a profiler's trace instead; may be repeated",
           .repeated = true,
           .details =
               "JSON of PyTorch's profiler, or what nsys export --type sqlite writes; of several ranks, one "
               "file each. Tells times of operators by shape, launches, communication. With --output and "
               "--topology, the constants that the trace tells are written."},
          recipe_option("with --from-trace: the plan to predict beside the trace"),
          runtime_option(),
          {.name = "keep-host",
           .argument = "",
           .default_value = "",
           .help = "write the traced host's factor, too",
           .details = "The profiler makes the host slower, so it is left out otherwise. For predictions of "
                      "traced steps."},
          {.name = "trace",
           .argument = "OUT",
           .default_value = "",
           .help = "write predicted and measured steps for ui.perfetto.dev"}};
}

int run_calibrate_trace(const Command& command, const Arguments& a, Streams& streams) {
  refuse_options_of_runs(command, a);
  for (const char* file : {"output", "trace"}) {
    if (a.has(file)) require_writable(a.text(file));
  }
  const std::vector<MeasuredTrace> traces = traces_of(a, streams);
  const TraceAnalysis analysis = analyze(traces);
  nlohmann::ordered_json json = json_of(analysis, traces);
  std::string text = to_text(analysis, traces);
  const DeviceAnalysis& first = analysis.devices.front();
  std::unique_ptr<PredictedSubject> predicted;
  std::optional<PredictedShares> shares;
  std::string both;
  if (a.has("recipe")) {
    predicted = std::make_unique<PredictedSubject>(subject_of("calibrate", a, streams.err));
    const DeviceId device = predicted_device(predicted->subject.topology, traces.front());
    const StepComparison comparison = comparison_of(*predicted, device, first, traces.front());
    text += "\n" + to_text(comparison);
    json["comparison"] = json_of(comparison);
    shares = predicted_shares(predicted->part, device);
    shares->keep_host = a.given("keep-host");
    both = trace_of_both(predicted->part, device, traces.front(), first.device.steps[first.typical_step()],
                         comparison);
  }
  if (a.has("topology")) {
    const Topology topology = predicted ? predicted->subject.topology : topology_of(a);
    const Runtime runtime = predicted ? predicted->subject.plan.runtime : runtime_of_recipes(a, topology);
    const TracedConstants constants = constants_of(analysis, traces, topology, runtime, shares);
    if (a.has("output") && constants.constants.constants.empty())
      throw InputError(
          fmt::format("{}: the trace tells no constant, allowed: one with shapes of operators "
                      "(record_shapes=True), or with collectives of two sizes",
                      traces.front().file));
    if (a.has("output")) write_file(a.text("output"), to_json(constants.constants));
    text += "\n" + (a.has("output") ? a.text("output") + ": " : "") + to_text(constants);
    json["constants"] = nlohmann::ordered_json::parse(to_json(constants.constants));
  }
  if (a.has("trace")) write_file(a.text("trace"), both);
  if (a.given("json")) {
    give_document(streams, json);
  } else {
    streams.out << text;
  }
  return 0;
}

}  // namespace pipesim
