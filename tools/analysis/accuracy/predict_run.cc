#include "tools/analysis/accuracy/predict_run.h"

#include <fmt/format.h>

#include <cmath>
#include <map>
#include <mutex>
#include <span>
#include <thread>
#include <vector>

#include "costmodel/constants/fit_constants.h"
#include "search/evaluator.h"
#include "search/recipes/recipe.h"
#include "search/worker_threads.h"
#include "sim/base/errors.h"
#include "tools/analysis/accuracy/collective_report.h"
#include "tools/analysis/inputs/model_and_topology.h"
#include "tools/analysis/inputs/recipe_run.h"
#include "tools/analysis/plans/breakdown/allocator_memory.h"

namespace pipesim {
namespace {

// Returns the longest time that a device takes from its first task of compute to its last.
Seconds longest_span(const SimulatedPart& part) {
  const TaskGraph& tasks = part.task_graph();
  const Timeline& timeline = part.timeline();
  std::map<DeviceId, std::pair<Nanoseconds, Nanoseconds>> spans;
  for (std::size_t t = 0; t < tasks.labels.size(); ++t) {
    const TaskLabel& label = tasks.labels[t];
    if (label.kind > TaskKind::BackwardWeight && label.kind != TaskKind::Update) continue;
    const auto [span, is_new] =
        spans.try_emplace(label.device, std::pair(timeline.start[t], timeline.end[t]));
    span->second.first = std::min(span->second.first, timeline.start[t]);
    span->second.second = std::max(span->second.second, timeline.end[t]);
  }
  Nanoseconds longest = 0;
  for (const auto& [device, span] : spans) longest = std::max(longest, span.second - span.first);
  return to_seconds(longest);
}

// By device: what is there when a step has ended. Float32 copies of gradients that it made are freed when the
// next iteration begins.
std::vector<Bytes> state_after_step(const PlanContents& contents, const Strategy& strategy) {
  const BoundStrategy bound = contents.bind(strategy);
  std::vector<Bytes> state;
  for (const WeightMemory& held : contents.permanent_memory(bound))
    state.push_back(held.weights + held.gradients + held.optimizer_state);
  contents.for_each_update(bound, [&](OperatorId, const OwnedUpdates& work) {
    for (std::size_t k = 0; k < work.devices.size(); ++k) state[work.devices[k].index()] += work.widened[k];
  });
  return state;
}

// The peak of a device as the run measured it.
Bytes peak_of(const ExpressedRun& run, const Evaluated& scored, DeviceId device) {
  const DeviceMemory& of = scored.peaks[device.index()];
  if (run.memory_figure == MemoryFigure::Allocated) return of.peak + run.workspace;
  const MemoryOverhead& overhead = scored.part->topology().kind(device).memory_overhead;
  const ReservedMemory held = allocator_memory(*scored.part, scored.peaks, std::span(&device, 1)).front();
  const Bytes reserved = held.reserved + run.workspace;
  return run.memory_figure == MemoryFigure::Reserved ? reserved
                                                     : overhead.of_process(reserved, of.communicators);
}

PredictedRun simulated(const ExpressedRun& run, const Calibration* calibration) {
  const Topology topology = open_topology(run.topology);
  Recipe recipe = parse_recipe(run.recipe);
  ModelRun sized = run_of_recipe(run.model, static_cast<std::int64_t>(topology.num_devices()),
                                 {.batch = run.batch, .microbatch = {}, .microbatches = {}}, recipe);
  const Runtime runtime = with_policies(parse_runtime(run.runtime), recipe);
  if (dispatches_locally(sized.model, runtime))
    sized.model = with_token_groups(sized.model, recipe.shape(true).sequence.token_groups);
  const OperatorGraph graph = open_model(sized.model);
  Plan plan;
  plan.options.optimizer = run.optimizer;
  plan.options.gradient_type = run.gradient_type;
  plan.options.microbatches = sized.microbatches;
  apply_recipe(recipe, RecipeModel(graph), topology, plan);
  const CostModel costs(topology, calibration, runtime);
  Evaluator evaluator(graph, costs, plan.options);
  EvaluationRequest request{.peaks = true};
  if (run.memory_figure != MemoryFigure::Allocated) request.part = Labels::Leave;  // to replay the allocator
  const Evaluated scored = evaluator.evaluate(plan.strategy, request);
  const DeviceMemory& last = scored.peaks.back();
  const DeviceMemory& fullest = *std::ranges::max_element(scored.peaks, {}, &DeviceMemory::peak);
  const Bytes state = state_after_step(evaluator.contents(), plan.strategy).back();
  const std::size_t device =
      static_cast<std::size_t>((run.fullest_peak ? &fullest : &last) - scored.peaks.data());
  const Bytes peak = peak_of(run, scored, DeviceId(device));
  Seconds time = to_seconds(scored.cost->time);
  if (run.post_validation) {
    const Evaluated whole = evaluator.evaluate(plan.strategy, {.extent = Extent::All, .part = Labels::Make});
    time = longest_span(*whole.part);
  }
  return {.time = time,
          .interval = {},
          .undisturbed = {},
          .peak = peak,
          .state = state + run.workspace,
          .fits = scored.cost->feasible(),
          .error = ""};
}

std::vector<DeviceId> first_devices(std::int64_t count, const Topology& topology) {
  const auto all = static_cast<std::int64_t>(topology.num_devices());
  if (count < 2 || count > all)
    throw InputError(fmt::format("a collective of {} devices on {} of {}", count, all, topology.name()));
  std::vector<DeviceId> devices;
  for (std::size_t d = 0; d < static_cast<std::size_t>(count); ++d) devices.emplace_back(d);
  return devices;
}

Topology without_sums_in_switches(const Topology& topology) {
  TopologyParts parts = topology.parts();
  for (DeviceKind& kind : parts.kinds)
    if (kind.collectives) kind.collectives->in_switch = false;
  return Topology(std::move(parts));
}

PredictedRun timed(const ExpressedCollective& c, const Calibration* calibration) {
  Topology topology = open_topology(c.topology);
  if (!c.in_switch) topology = without_sums_in_switches(topology);
  const std::vector<DeviceId> devices = first_devices(c.devices, topology);
  PredictedRun predicted;
  predicted.time =
      time_collective(CostModel(topology, calibration), c.kind, devices, std::span(&c.size, 1)).front().time;
  return predicted;
}

template <class Expressed>
PredictedRun predicted_or_refused(const Expressed& what, const Calibration* calibration,
                                  PredictedRun (*predict)(const Expressed&, const Calibration*)) {
  PredictedRun refused;
  try {
    return predict(what, calibration);
  } catch (const InputError& error) {
    refused.error = error.what();
  } catch (const UsageError& error) {  // of samples and microbatches that do not go together
    refused.error = error.what();
  }
  return refused;
}

PredictedRun with_interval(const ExpressedRun& run, const Calibration* calibration) {
  PredictedRun predicted = predicted_or_refused(run, calibration, simulated);
  if (!calibration || !calibration->constants || !predicted.error.empty()) return predicted;
  Calibration there = *calibration;
  predicted.interval =
      interval_of(*calibration->constants, predicted.time, [&](const ClusterConstants& moved) {
        there.constants = moved;
        return simulated(run, &there).time;
      });
  return predicted;
}

std::string key_of(const ExpressedRun& run) {
  return fmt::format("{} {} {} {} {} {} {} {} {} {} {}", run.model, run.topology, run.recipe, run.batch,
                     run.runtime, static_cast<int>(run.gradient_type), run.optimizer.str(),
                     run.workspace.value, run.post_validation, run.fullest_peak,
                     static_cast<int>(run.memory_figure));
}

// Calls `predict` only once for equal runs.
std::vector<PredictedRun> predict_each(const std::vector<ExpressedRun>& runs,
                                       const std::function<PredictedRun(const ExpressedRun&)>& predict,
                                       const std::function<void(std::size_t done)>& predicted) {
  std::map<std::string, std::size_t> number_of;  // by content: of a run
  std::vector<std::size_t> different, first;
  for (std::size_t i = 0; i < runs.size(); ++i) {
    const auto [known, is_new] = number_of.try_emplace(key_of(runs[i]), i);
    if (is_new) different.push_back(i);
    first.push_back(known->second);
  }
  std::vector<PredictedRun> all(runs.size());
  std::mutex mutex;
  std::size_t done = 0;
  WorkerThreads threads(std::max(1U, std::thread::hardware_concurrency()));
  threads.run(different, [&](std::size_t number, std::size_t) {
    all[number] = predict(runs[number]);
    const std::lock_guard lock(mutex);
    ++done;
    if (predicted) predicted(done);
  });
  for (std::size_t i = 0; i < runs.size(); ++i) {
    if (first[i] != i) all[i] = all[first[i]];
  }
  return all;
}

}  // namespace

PredictedRun predict_collective(const ExpressedCollective& collective, const Calibration* calibration) {
  return predicted_or_refused(collective, calibration, timed);
}

std::vector<PredictedRun> predict_runs(const std::vector<ExpressedRun>& runs, const Calibration* calibration,
                                       const std::function<void(std::size_t done)>& predicted) {
  return predict_each(
      runs, [&](const ExpressedRun& run) { return with_interval(run, calibration); }, predicted);
}

std::vector<double> log_times(const std::vector<ExpressedRun>& runs, const ClusterConstants& constants) {
  Calibration calibration;
  calibration.constants = constants;
  std::vector<double> logs;
  for (const PredictedRun& run : predict_times(runs, &calibration)) logs.push_back(std::log(run.time.value));
  return logs;
}

std::vector<PredictedRun> predict_times(const std::vector<ExpressedRun>& runs,
                                        const Calibration* calibration) {
  return predict_each(
      runs, [&](const ExpressedRun& run) { return predicted_or_refused(run, calibration, simulated); }, {});
}

}  // namespace pipesim
