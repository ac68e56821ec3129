#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <iostream>
#include <ostream>
#include <set>

#include "executor/cores.h"
#include "executor/cpu/cpu_backend.h"
#include "executor/emulation.h"
#include "executor/step_gathering.h"
#include "sim/base/errors.h"
#include "sim/base/files.h"
#include "tools/calibration_use.h"
#include "tools/commands.h"
#include "tools/execution_report.h"
#include "tools/execution_trace.h"

namespace pipesim {
namespace {

constexpr const char* loss_word = "loss";

std::vector<DeviceId> devices_of(const Strategy& strategy) {
  std::set<DeviceId> used;
  for (const ParallelConfig& c : strategy) used.insert(c.devices.begin(), c.devices.end());
  return {used.begin(), used.end()};
}

// "gpu3=1.5,gpu4=2" as factors by device.
std::vector<double> slow_factors(const Arguments& a, const Topology& topology) {
  std::vector<double> factors(topology.num_devices(), 1.0);
  if (!a.has("slow")) return factors;
  std::string_view rest = a.text("slow");
  while (!rest.empty()) {
    const std::string_view item = rest.substr(0, rest.find(','));
    rest.remove_prefix(std::min(rest.size(), item.size() + 1));
    const std::size_t equals = item.find('=');
    double factor = 0;
    const std::string_view number = equals == std::string_view::npos ? "" : item.substr(equals + 1);
    const auto [end, error] = std::from_chars(number.data(), number.data() + number.size(), factor);
    if (error != std::errc{} || end != number.data() + number.size() || !(factor > 0) ||
        !std::isfinite(factor))
      throw UsageError(fmt::format(
          "--slow: found \"{}\", allowed: DEVICE=FACTOR with a factor above 0, as gpu3=1.5", item));
    factors[topology.device_named(item.substr(0, equals)).index()] = factor;
  }
  return factors;
}

struct Settings {
  bool emulated = false, check = false;
  std::int64_t steps = 0, warmup = 0;
  std::uint64_t seed = 0;
  CpuBackend::Settings cpu;
};

Settings settings_of(const Arguments& a) {
  constexpr std::int64_t most_steps = 1'000'000;
  Settings s;
  s.emulated = a.choice("backend", {"cpu", "emulated"}) == "emulated";
  s.check = a.given("check");
  s.steps = a.integer("steps", 1, most_steps);
  s.warmup = a.integer("warmup", 0, most_steps);
  s.seed = static_cast<std::uint64_t>(a.integer("seed", 0, INT64_MAX));
  s.cpu.optimizer.learning_rate = static_cast<float>(a.number("learning-rate", 0, 1e6));
  s.cpu.threads_per_device = static_cast<int>(a.integer("threads-per-device", 1, 1024));
  s.cpu.real_time = !a.given("no-realtime");
  if (s.emulated && s.check)
    throw UsageError("execute: --check needs --backend cpu: emulated devices compute nothing");
  if (!s.emulated && a.has("slow")) throw UsageError("execute: --slow needs --backend emulated");
  return s;
}

void require_cores(std::size_t devices, const Settings& settings, bool oversubscribe,
                   const DeviceWorlds& worlds) {
  const std::size_t cores =
      allowed_cores().size() / static_cast<std::size_t>(settings.cpu.threads_per_device);
  if (settings.emulated || oversubscribe || devices <= cores) return;
  throw InputError(
      fmt::format("the plan uses {} devices{} and there {} {} core{} for them; run a plan for fewer devices, "
                  "or add --oversubscribe "
                  "(times then say little)",
                  devices, worlds.ranks() > 1 ? " in this process" : "", cores == 1 ? "is" : "are", cores,
                  cores == 1 ? "" : "s"));
}

// One plan, run as the options say.
class Run {
 public:
  Run(const Subject& subject, const Settings& settings, DeviceWorlds& worlds, std::vector<double> slow)
      : subject_(subject),
        settings_(settings),
        worlds_(worlds),
        slow_(std::move(slow)),
        costs_(subject.topology, pointer_to(subject.calibration)),
        source_(subject.graph) {}

  ExecutionReport report(std::ostream& progress) {
    ExecutionReport r;
    r.emulated = settings_.emulated;
    r.ranks = worlds_.ranks();
    r.devices = devices_of(subject_.plan.strategy).size();
    if (settings_.check) check(r);
    measure(r, progress);
    return r;
  }

  void write_trace(const std::string& path) {
    write_file(path, execution_trace(training_->tasks(), training_->simulated(), median_step(),
                                     subject_.graph, subject_.topology));
  }

 private:
  std::unique_ptr<Backend> make_backend(bool watch_for_nan) {
    if (settings_.emulated) return std::make_unique<EmulatedBackend>(settings_.cpu.real_time);
    CpuBackend::Settings s = settings_.cpu;
    s.watch_for_nan = watch_for_nan;
    return std::make_unique<CpuBackend>(subject_.graph, subject_.topology.num_devices(),
                                        subject_.plan.options.optimizer, s);
  }

  std::unique_ptr<Training> make_training(Backend& backend) {
    const Training::Setting setting{backend,         source_,        worlds_.worlds(),
                                    worlds_.local(), settings_.seed, false};
    auto training = std::make_unique<Training>(
        subject_.graph, costs_, subject_.plan.options, subject_.plan.strategy, setting,
        [this](const TaskDag& dag, std::span<const TaskId> order) -> std::unique_ptr<Pace> {
          if (!settings_.emulated) return std::make_unique<RealPace>();
          return std::make_unique<EmulatedPace>(dag, order, slow_, EmulatedPace::Sleep::UntilDeadline);
        });
    if (worlds_.ranks() > 1) {
      training->execution().on_task([this, &labels = training->tasks().labels](DeviceId, TaskId task) {
        worlds_.set_last_task(describe(labels[task.index()], subject_.graph, subject_.topology));
      });
    }
    return training;
  }

  // Results of the model, all processes together.
  std::map<TensorId, std::vector<float>> whole_outputs(const Training& training) {
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

  void check(ExecutionReport& r) {
    constexpr int checked_steps = 3;
    UnsplitReference reference(subject_.graph, costs_, subject_.plan.options, unpinned(), source_,
                               reference_world_.worlds(), settings_.seed);
    const std::unique_ptr<Backend> backend = make_backend(false);
    const std::unique_ptr<Training> training = make_training(*backend);
    training->keep_values(Training::Keep::Everything);
    for (int s = 0; s < checked_steps; ++s) {
      training->step();
      reference.step();
      r.equalities.push_back(worst_of_ranks(compare(*training, whole_outputs(*training), reference.values(),
                                                    reference.noise(), subject_.graph)));
    }
  }

  [[nodiscard]] CpuBackend::Settings unpinned() const {
    CpuBackend::Settings s = settings_.cpu;
    s.pin = s.real_time = false;
    return s;
  }

  StepEquality worst_of_ranks(StepEquality mine) {
    for (const std::string& text :
         worlds_.gather_text(fmt::format("{:a} {}", mine.worst.error, mine.worst.name))) {
      const double error = std::strtod(text.c_str(), nullptr);
      if (!(error <= mine.worst.error)) mine.worst = {text.substr(text.find(' ') + 1), error, 0};
    }
    return mine;
  }

  void measure(ExecutionReport& r, std::ostream& progress) {
    backend_ = make_backend(false);
    training_ = make_training(*backend_);
    training_->keep_values(Training::Keep::Outputs);
    for (std::int64_t s = 0; s < settings_.warmup + settings_.steps; ++s) {
      worlds_.barrier();
      StepRecord record = training_->step();
      if (s >= settings_.warmup) records_.push_back(std::move(record));
      note_loss(r, s);
      if (&progress == &std::cerr && settings_.steps > 100 && s % 100 == 99)
        progress << fmt::format("\r\033[K{} of {} iterations", s + 1, settings_.warmup + settings_.steps)
                 << std::flush;
    }
    fill(r);
  }

  void note_loss(ExecutionReport& r, std::int64_t step) {
    if (settings_.emulated) return;
    double sum = 0;
    bool scalar = false;
    for (const auto& [tensor, values] : whole_outputs(*training_)) {
      if (!subject_.graph.tensor(tensor).shape.empty()) continue;
      sum += values[0];
      scalar = true;
    }
    if (scalar) r.losses.push_back(sum);
    if (scalar && std::isnan(sum)) explain_nan(step);
  }

  // Runs once more from the start, looking at every tensor.
  void explain_nan(std::int64_t step) {
    const std::string when = fmt::format("the {} became NaN in step {}", loss_word, step);
    const std::unique_ptr<Backend> backend = make_backend(true);
    const std::unique_ptr<Training> training = make_training(*backend);
    try {
      for (std::int64_t s = 0; s <= step; ++s) training->step();
    } catch (const DeviceError& first) {
      throw DeviceError(fmt::format("{}; {}", when, first.what()));
    }
    throw DeviceError(when);
  }

  void fill(ExecutionReport& r) {
    records_ = gather_steps(worlds_, records_);
    r.backend = backend_->name();
    r.predicted = training_->simulated().makespan;
    r.measured = statistics_of(records_);
    if (!settings_.emulated) {
      constexpr double noise_seconds = 0.2;
      r.noise = measure_noise(worlds_.local().size(), noise_seconds);
      r.noise.realtime = static_cast<const CpuBackend&>(*backend_).in_real_time();
      r.not_quiet = why_not_quiet(r.measured, r.noise);
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

  const StepRecord& median_step() {
    std::vector<const StepRecord*> clean = clean_steps(records_);
    std::sort(clean.begin(), clean.end(),
              [](const StepRecord* a, const StepRecord* b) { return a->makespan < b->makespan; });
    return *clean[clean.size() / 2];
  }

  const Subject& subject_;
  const Settings& settings_;
  DeviceWorlds& worlds_;
  std::vector<double> slow_;
  CostModel costs_;
  SyntheticSource source_;
  DeviceWorlds reference_world_{subject_.topology, false};
  std::unique_ptr<Backend> backend_;
  std::unique_ptr<Training> training_;
  std::vector<StepRecord> records_;
};

int run_execute(const Arguments& arguments, Streams& streams) {
  if (arguments.has("trace")) require_writable(arguments.text("trace"));
  const Subject subject = subject_of("execute", arguments, streams.err);
  const Settings settings = settings_of(arguments);
  DeviceWorlds worlds(subject.topology, started_by_mpi());
  std::size_t mine = 0;
  for (const DeviceId d : devices_of(subject.plan.strategy))
    mine += std::find(worlds.local().begin(), worlds.local().end(), d) != worlds.local().end() ? 1 : 0;
  require_cores(mine, settings, arguments.given("oversubscribe"), worlds);
  Run run(subject, settings, worlds, slow_factors(arguments, subject.topology));
  const ExecutionReport report = run.report(streams.err);
  if (arguments.has("trace") && worlds.rank() == 0) run.write_trace(arguments.text("trace"));
  if (worlds.rank() == 0)
    streams.out << (arguments.given("json") ? to_json(report, subject) : to_text(report, subject));
  for (const StepEquality& e : report.equalities) {
    if (!UnsplitReference::equal(e))
      throw DeviceError(
          fmt::format("the plan does not compute what the unsplit model does: {} differs by {:.3g}, rounding "
                      "alone makes {:.3g}",
                      e.worst.name, e.worst.error, e.noise));
  }
  return 0;
}

}  // namespace

Command execute_command() {
  Command c;
  c.name = "execute";
  c.summary = "run training steps of a plan, measured beside predicted";
  c.description =
      "Runs the tasks that simulate predicts, with real tensors: every device of the topology is a thread, "
      "or belongs to "
      "one of the processes that mpirun has started (mpirun -np 4 pipesim execute …), each of which takes "
      "its share of "
      "the devices in order. Data and initial weights are made from the seed.\n\n"
      "With --check the unsplit model runs beside the plan from the same seed; results, gradients and "
      "updated weights must "
      "agree within 4 times what rounding alone does to the unsplit model, which is measured by forming all "
      "its sums in "
      "the other order.\n\n"
      "Iterations during which the system took a core away are counted and left out. On a host that is not "
      "quiet no error "
      "of the prediction is given.\n\n"
      "Emulated devices take as long as predicted and compute nothing: they test order and messages of plans "
      "for any "
      "number of devices, and show what a slow device does.";
  c.options = subject_options("execute");
  for (Option& o : std::vector<Option>{
           {"backend", "NAME", "cpu", "cpu, or emulated"},
           {"steps", "N", "20", "iterations to measure"},
           {"warmup", "N", "3", "iterations before them"},
           {"check", "", "", "compare with the unsplit model for three steps first"},
           {"seed", "N", "1", "of data and initial weights"},
           {"learning-rate", "RATE", "0.01", "of the plan's optimizer"},
           {"threads-per-device", "N", "1", "threads of a device's kernels"},
           {"oversubscribe", "", "", "run more devices than there are cores"},
           {"no-realtime", "", "", "do not ask for SCHED_FIFO, even where it is permitted"},
           {"slow", "LIST", "", "slower devices of the emulation, as gpu3=1.5,gpu4=2"},
           {"trace", "FILE", "", "write predicted and measured timelines for ui.perfetto.dev"},
           {"json", "", "", "print one JSON object instead of text"}})
    c.options.push_back(std::move(o));
  c.examples = {
      {"pipesim execute --model lenet:batch=32 --topology cpu:2 --baseline data-parallel --check",
       "does it compute the same?"},
      {"pipesim execute --plan plan.json --backend emulated --slow gpu3=1.5", "what does a straggler cost?"}};
  c.run = run_execute;
  return c;
}

}  // namespace pipesim
