#include "tools/running/plan_run.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <set>

#include "executor/backend/cores.h"
#include "executor/measuring/host_noise.h"
#include "executor/measuring/prediction_interval.h"
#include "executor/measuring/step_gathering.h"
#include "executor/run/emulation.h"
#include "sim/base/errors.h"
#include "sim/base/files.h"
#include "tools/analysis/inputs/calibration_use.h"
#include "tools/running/execution_trace.h"

namespace pipesim {
namespace {

constexpr const char* loss_word = "loss";

CpuBackend::Settings unpinned(CpuBackend::Settings s) {
  s.pin = s.real_time = false;
  return s;
}

std::vector<TensorFile> tensor_files(const std::vector<std::string>& texts, const OperatorGraph& graph) {
  std::vector<TensorFile> files;
  for (const std::string& text : texts) files.push_back(parse_tensor_file(text, graph));
  return files;
}

std::vector<double> slow_factors(const RunSetting& setting, const Topology& topology) {
  return setting.slow.empty() ? std::vector<double>(topology.num_devices(), 1.0) : setting.slow;
}

}  // namespace

std::unique_ptr<DeviceWorlds> open_worlds(const RunSetting& setting, const Topology& topology) {
  const std::optional<LaunchedRank> launched =
      setting.gpus ? launched_rank(process_environment()) : std::nullopt;
  // A launcher inside a job of MPI leaves the job's variables to its processes.
  const bool by_mpi = started_by_mpi() && (!launched || launched->launcher == "Open MPI");
  if (setting.rendezvous == "mpi" && !started_by_mpi())
    throw UsageError("--rendezvous mpi: this process was not started by mpirun");
  if (setting.rendezvous == "mpi" || (setting.rendezvous.empty() && by_mpi))
    return std::make_unique<DeviceWorlds>(topology, true);
  if (!launched || launched->ranks == 1) {
    if (!setting.rendezvous.empty())
      throw UsageError("--rendezvous: there is only one process; allowed under torchrun, srun and mpirun");
    return std::make_unique<DeviceWorlds>(topology, false);
  }
  std::string place = setting.rendezvous;
  // On one host the name of that host need not be known, nor its network be open.
  const bool one_host = launched->local_ranks == launched->ranks;
  const std::string address = one_host ? "127.0.0.1" : launched->address;
  if (place.empty() && !address.empty() && launched->port > 0) {
    const bool v6 = address.find(':') != std::string::npos;
    place = fmt::format("tcp://{}:{}", v6 ? "[" + address + "]" : address, launched->port);
  }
  if (place.empty())
    throw InputError(
        fmt::format("{} does not say where its {} processes meet; add --rendezvous tcp://HOST:PORT, or "
                    "set MASTER_ADDR and MASTER_PORT",
                    launched->launcher, launched->ranks));
  return std::make_unique<DeviceWorlds>(topology, parse_rendezvous(place), *launched);
}

void require_one_process(const RunSetting& setting, const std::string& command) {
  if (!setting.gpus) return;
  if (!setting.rendezvous.empty())
    throw UsageError(command + ": --rendezvous is for execute; all devices must be in this process");
  const std::optional<LaunchedRank> launched = launched_rank(process_environment());
  if (launched && launched->ranks > 1)
    throw InputError(fmt::format("{} runs in one process; found {} that {} has started", command,
                                 launched->ranks, launched->launcher));
}

std::vector<DeviceId> devices_of(const Strategy& strategy) {
  std::set<DeviceId> used;
  for (const ParallelConfig& c : strategy) used.insert(c.devices.begin(), c.devices.end());
  return {used.begin(), used.end()};
}

void require_cores(const Strategy& strategy, const RunSetting& setting, const DeviceWorlds& worlds) {
  const std::size_t cores = allowed_cores().size() / static_cast<std::size_t>(setting.cpu.threads_per_device);
  std::size_t devices = 0;
  for (const DeviceId d : devices_of(strategy))
    devices += std::find(worlds.local().begin(), worlds.local().end(), d) != worlds.local().end() ? 1 : 0;
  if (setting.emulated || setting.gpus || setting.oversubscribe || devices <= cores) return;
  throw InputError(
      fmt::format("the plan uses {} devices{} and there {} {} core{} for them; run a plan for fewer devices, "
                  "or add --oversubscribe "
                  "(times then say little)",
                  devices, worlds.ranks() > 1 ? " in this process" : "", cores == 1 ? "is" : "are", cores,
                  cores == 1 ? "" : "s"));
}

PlanRun::PlanRun(const Subject& subject, const RunSetting& setting, DeviceWorlds& worlds)
    : subject_(subject),
      setting_(setting),
      worlds_(worlds),
      gpus_(setting.gpus ? std::make_unique<GpuDevices>(subject, *setting.gpus, worlds) : nullptr),
      topology_(gpus_ ? with_share(subject.topology, gpus_->share()) : subject.topology),
      costs_(topology_, pointer_to(subject.calibration)),
      synthetic_(subject.graph),
      source_(subject.graph, tensor_files(setting.data, subject.graph), synthetic_),
      reference_world_(subject.topology, false) {}

PlanRun::~PlanRun() = default;

ExecutionReport PlanRun::report(ShownProgress* progress) {
  if (setting_.checked_steps > 0) check();
  begin();
  take_turn(setting_.warmup, setting_.steps, progress);
  return finish();
}

void PlanRun::begin() {
  backend_ = make_backend(false);
  training_ = make_training(*backend_);
  training_->keep_values(Training::Keep::Outputs);
}

PlanSamples PlanRun::sample(const SamplingLength& length) {
  backend_ = make_backend(false);
  training_ = make_training(*backend_);
  PlanSamples samples{task_durations(training_->expanded(), training_->program(), KeyPlace::Topology), {}};
  samples.sampled = sample_steps(*training_, samples.durations, length);
  return samples;
}

void PlanRun::warn_of_share(std::ostream& err) const {
  if (topology_ == subject_.topology || worlds_.rank() != 0) return;
  for (const std::string& text : costs_.calibration_warnings())
    err << fmt::format("pipesim: warning: {}\n", text);
}

void PlanRun::write_trace(const std::string& path) {
  write_file(path, execution_trace(training_->tasks(), training_->simulated(), median_step(), subject_.graph,
                                   subject_.topology));
}

std::unique_ptr<Backend> PlanRun::make_backend(bool watch_for_nan) {
  if (setting_.emulated)
    return std::make_unique<EmulatedBackend>(setting_.cpu.real_time &&
                                             setting_.sleep != EmulatedPace::Sleep::Never);
  if (gpus_) return gpus_->make_backend(subject_, {setting_.cpu.optimizer, watch_for_nan});
  CpuBackend::Settings s = setting_.cpu;
  s.watch_for_nan = watch_for_nan;
  return std::make_unique<CpuBackend>(subject_.graph, subject_.topology.num_devices(),
                                      subject_.plan.options.optimizer, s);
}

std::unique_ptr<Training> PlanRun::make_training(Backend& backend) {
  const Training::Setting setting{backend,
                                  source_,
                                  worlds_.worlds(),
                                  worlds_.local(),
                                  setting_.seed,
                                  SumOrder::Ascending,
                                  [this](const std::vector<DeviceMemory>& peaks) { require_memory(peaks); },
                                  setting_.arenas};
  auto training = std::make_unique<Training>(
      subject_.graph, costs_, subject_.plan.options, subject_.plan.strategy, setting,
      [this](const TaskDag& dag, std::span<const TaskId> order) -> std::unique_ptr<Pace> {
        if (!setting_.emulated) return std::make_unique<RealPace>();
        return std::make_unique<EmulatedPace>(dag, order, slow_factors(setting_, subject_.topology),
                                              setting_.sleep);
      });
  if (worlds_.ranks() > 1) {
    training->execution().on_task([this, &labels = training->tasks().labels](DeviceId, TaskId task) {
      worlds_.set_last_task(describe(labels[task.index()], subject_.graph, subject_.topology));
    });
  }
  return training;
}

// Emulated devices have no memory; GPUs are asked for theirs when it is taken.
void PlanRun::require_memory(const std::vector<DeviceMemory>& peaks) const {
  const std::optional<Bytes> available = available_memory();
  if (setting_.emulated || !available) return;
  Bytes needed = reference_memory_;
  for (const DeviceId d : worlds_.local()) {
    if (!setting_.gpus) needed += peaks[d.index()].peak;
  }
  if (needed <= *available) return;
  const bool checked = reference_memory_.value > 0;
  throw InputError(fmt::format(
      "the run is predicted to need {}{} and this host has {} left; take a smaller batch, or a plan "
      "that splits weights over more hosts",
      pretty(needed), checked ? ", with the unsplit model beside it," : "", pretty(*available)));
}

// Results of the model, all processes together.
std::map<TensorId, std::vector<float>> PlanRun::whole_outputs(const Training& training) {
  std::map<TensorId, std::vector<float>> outputs;
  for (std::size_t t = 0; t < subject_.graph.tensors().size(); ++t) {
    const TensorId id(t);
    const Tensor& tensor = subject_.graph.tensor(id);
    if (!tensor.producer.valid() || !subject_.graph.consumers(id).empty() ||
        !subject_.graph.gets_gradient(id))
      continue;
    std::vector<float>& whole = outputs[id];
    const auto mine = training.values().outputs.find(id);
    whole = mine == training.values().outputs.end()
                ? std::vector<float>(static_cast<std::size_t>(tensor.elements()), 0.0F)
                : mine->second;
    worlds_.add_over_ranks(whole);
  }
  return outputs;
}

void PlanRun::check() {
  UnsplitReference reference(subject_.graph, costs_, subject_.plan.options, unpinned(setting_.cpu), source_,
                             reference_world_.worlds(), setting_.seed,
                             [this](const std::vector<DeviceMemory>& peaks) {
                               reference_memory_ = reference_memory_ + peaks[0].peak;
                               require_memory(std::vector<DeviceMemory>(peaks.size()));
                             });
  const std::unique_ptr<Backend> backend = make_backend(false);
  const std::unique_ptr<Training> training = make_training(*backend);
  training->keep_values(Training::Keep::Everything);
  for (std::int64_t s = 0; s < setting_.checked_steps; ++s) {
    training->step();
    reference.step();
    equalities_.push_back(worst_of_ranks(
        compare(*training, whole_outputs(*training), reference.values(), reference.noise(), subject_.graph)));
  }
  reference_memory_ = Bytes(0);
}

StepEquality PlanRun::worst_of_ranks(StepEquality mine) {
  const auto distance = [](double error, double noise) { return noise > 0 ? error / noise : -1.0; };
  for (const std::string& text :
       worlds_.gather_text(fmt::format("{:a} {:a} {}", mine.worst.error, mine.noise, mine.worst.name))) {
    char* rest = nullptr;
    const double error = std::strtod(text.c_str(), &rest);
    const double noise = std::strtod(rest, &rest);
    if (distance(error, noise) > distance(mine.worst.error, mine.noise))
      mine = {{rest + 1, error, 0}, noise, std::max<std::size_t>(mine.compared, 1), mine.rounding_only};
  }
  return mine;
}

void PlanRun::take_turn(std::int64_t warmup, std::int64_t steps, ShownProgress* progress) {
  for (std::int64_t s = 0; s < warmup + steps; ++s) {
    worlds_.barrier();
    StepRecord record = training_->step();
    if (s >= warmup) records_.push_back(std::move(record));
    note_loss();
    ++steps_;
    if (progress != nullptr && progress->due())
      progress->show(fmt::format("{} of {} iterations", s + 1, warmup + steps));
  }
  if (progress != nullptr) progress->clear();
}

void PlanRun::note_loss() {
  if (setting_.emulated) return;
  double sum = 0;
  bool scalar = false;
  for (const auto& [tensor, values] : whole_outputs(*training_)) {
    if (!subject_.graph.tensor(tensor).shape.empty()) continue;
    sum += values[0];
    scalar = true;
  }
  if (scalar) losses_.push_back(sum);
  if (scalar && std::isnan(sum)) explain_nan(steps_);
}

// Runs once more from the start, looking at every tensor.
void PlanRun::explain_nan(std::int64_t step) {
  const std::string when = fmt::format("the {} became NaN in step {}", loss_word, step);
  training_.reset();  // its memory is needed again
  const std::unique_ptr<Backend> backend = make_backend(true);
  const std::unique_ptr<Training> training = make_training(*backend);
  try {
    for (std::int64_t s = 0; s <= step; ++s) training->step();
  } catch (const DeviceError& first) {
    throw DeviceError(fmt::format("{}; {}", when, first.what()));
  }
  throw DeviceError(when);
}

// Tasks of other processes are not in the program, so that nothing could be drawn for them.
void PlanRun::predict(ExecutionReport& r) {
  constexpr std::size_t most_iterations = 200, most_tasks = 4'000'000;
  r.predicted = training_->simulated().makespan;
  r.calibrated = costs_.calibrated();
  if (!r.calibrated || worlds_.ranks() > 1) return;
  const TaskGraph& tasks = training_->tasks();
  const TaskDurations durations =
      task_durations(training_->expanded(), training_->program(), KeyPlace::Calibration);
  const std::size_t iterations = std::clamp<std::size_t>(
      most_tasks / std::max<std::size_t>(1, tasks.dag.num_tasks()), 20, most_iterations);
  r.interval = predict_interval(tasks.dag, durations, *subject_.calibration, static_cast<int>(iterations),
                                Rng(setting_.seed));
}

ExecutionReport PlanRun::finish() {
  ExecutionReport r;
  r.emulated = setting_.emulated;
  r.links_emulated = setting_.gpus && setting_.gpus->emulate_links;
  r.ranks = worlds_.ranks();
  r.devices = devices_of(subject_.plan.strategy).size();
  r.losses = losses_;
  r.equalities = equalities_;
  fill(r);
  return r;
}

void PlanRun::fill(ExecutionReport& r) {
  records_ = gather_steps(worlds_, records_);
  r.backend = gpus_ ? gpus_->name() : backend_->name();
  if (gpus_) {
    r.times_by = gpus_->times_by();
    r.collection_cost = gpus_->collection_cost(*backend_, *training_);
  }
  predict(r);
  r.measured = statistics_of(records_);
  if (!setting_.emulated && !setting_.gpus) {
    constexpr double noise_seconds = 0.2;
    r.noise = measure_noise(worlds_.local().size(), noise_seconds, setting_.cpu.real_time);
    r.noise->realtime = dynamic_cast<const CpuBackend&>(*backend_).in_real_time();
    r.not_quiet = why_not_quiet(r.measured, *r.noise);
  }
  const auto clean = clean_steps(records_);
  r.operators = operator_differences(clean, training_->tasks(), subject_.graph);
  r.links = link_differences(clean, training_->tasks(), subject_.topology);
  for (const StepRecord* s : clean) r.overhead += overhead_per_task(*s) / static_cast<double>(clean.size());
  r.predicted_memory = training_->predicted_memory();
  for (std::size_t d = 0; d < subject_.topology.num_devices(); ++d)
    r.measured_memory.push_back(training_->execution().measured_memory(DeviceId(d)));
  r.measured_memory = gather_memory(worlds_, r.measured_memory);
}

const StepRecord& PlanRun::median_step() {
  std::vector<const StepRecord*> clean = clean_steps(records_);
  std::sort(clean.begin(), clean.end(),
            [](const StepRecord* a, const StepRecord* b) { return a->makespan < b->makespan; });
  return *clean[clean.size() / 2];
}

}  // namespace pipesim
