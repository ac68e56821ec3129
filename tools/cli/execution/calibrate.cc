#include <fmt/format.h>

#include <cmath>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <ostream>

#include "costmodel/calibration_store.h"
#include "executor/cpu/kernels/images/convolution.h"
#include "executor/gpu/machine/cuda_library.h"
#include "executor/measuring/host_noise.h"
#include "sim/base/errors.h"
#include "tools/analysis/inputs/calibration_use.h"
#include "tools/analysis/inputs/model_and_topology.h"
#include "tools/base/figures.h"
#include "tools/cli/base/status_line.h"
#include "tools/cli/commands/execution_commands.h"
#include "tools/cli/execution/run_setting_options.h"
#include "tools/cli/options/model_options.h"
#include "tools/cli/options/plan_options.h"
#include "tools/cli/options/shared_options.h"
#include "tools/running/calibrator.h"

namespace pipesim {
namespace {

constexpr std::int64_t plans_to_fit = 4;

constexpr const char* links_version = "links";  // of a run on GPUs whose links were emulated

std::string links_of(const RunSetting& setting, const Topology& topology) {
  const bool emulated = setting.gpus && setting.gpus->emulate_links;
  return emulated ? "emulated as those of " + topology.name() : "";
}

CalibrationRun run_here(const RunSetting& setting, const Topology& topology) {
  constexpr double noise_seconds = 0.5;
  CalibrationRun run{this_host(), date_now(), 0};
  if (setting.emulated) return run;
  if (setting.gpus) {
    const GpuInventory found = load_cuda_library().inventory();
    run.host.versions = {{"CUDA driver", found.driver},
                         {"cuBLASLt", found.cublas},
                         {"cuDNN", found.cudnn},
                         {"GPU", found.gpus.empty() ? found.no_gpus : found.gpus.front().name},
                         {"NCCL", found.nccl}};
    if (const std::string links = links_of(setting, topology); !links.empty())
      run.host.versions[links_version] = links;
    return run;
  }
  run.host.versions["oneDNN"] = cpu::onednn_version();
  run.noise_floor = measure_noise(topology.num_devices(), noise_seconds, setting.cpu.real_time).spread;
  return run;
}

// Refuses a calibration of other links, since keys of transfers say neither whether links were emulated nor
// which ones.
void require_same_links(const Calibration& calibration, const std::string& file, const std::string& links) {
  const auto text = [](const std::string& of) { return of.empty() ? "not emulated" : of; };
  for (const CalibrationRun& run : calibration.runs) {
    if (!run.host.versions.contains("GPU")) continue;
    const auto at = run.host.versions.find(links_version);
    const std::string measured = at == run.host.versions.end() ? "" : at->second;
    if (measured != links)
      throw InputError(
          fmt::format("{}: the links between GPUs were {} when it was measured, and now are {}; take another "
                      "--output",
                      file, text(measured), text(links)));
  }
}

CalibrationStore open_store(const std::string& file, const Topology& topology, CalibrationRun run,
                            std::ostream& err) {
  if (!std::filesystem::exists(file)) return CalibrationStore::create(file, std::move(run));
  CalibrationStore store = CalibrationStore::open(file, std::move(run));
  warn_of_differences(store.calibration(), file, topology, err);
  return store;
}

// What the command line asks for.
struct CalibrateRun {
  std::string output;
  OperatorGraph graph;
  Topology topology;
  RunSetting setting;
  PlanOptions options;
  bool baselines, fit;
  double tolerance;  // a share of the measured time
  std::int64_t random;
  std::vector<std::string> plans;  // files
};

CalibrateRun calibrate_run_of(const Arguments& a) {
  if (!a.has("output")) a.refuse("--output FILE is missing");
  OperatorGraph graph = open_model(model_run_of(a).model);
  require_recompute(graph, recompute_of(a));
  Topology topology = open_topology(required_text(a, "topology"));
  RunSetting setting = run_setting_of(a, topology);
  require_one_process(setting, "calibrate");
  setting.sleep = EmulatedPace::Sleep::Never;
  if (setting.gpus && setting.gpus->recorded)
    throw UsageError("calibrate: --recorded has no times of single tasks, which are what is measured");
  return {a.text("output"),
          std::move(graph),
          std::move(topology),
          std::move(setting),
          plan_options_of(a),
          !a.given("no-baselines"),
          a.given("fit"),
          a.number("tolerance", 0, 1000) / 100,
          a.integer("random", 0, kMostRandomPlans),
          a.texts("plan")};
}

PlanSet plans_to_sample(const CalibrateRun& run) {
  PlanSet set(run.graph, run.topology, run.options, std::nullopt);
  if (run.baselines) set.add_baselines();
  set.add_random(run.random, run.setting.seed);
  for (const std::string& file : run.plans) set.add_file(file);
  if (set.plans().empty())
    throw InputError(
        "there is no plan to run: baselines are left out or do not fit into memory, and neither --plan nor "
        "--random adds one");
  return set;
}

// What a calibration did, to be told.
struct Calibrated {
  std::size_t plans = 0, durations = 0, durations_in_all = 0, samples = 0;
  std::int64_t dropped = 0;
  double noise_floor = 0;  // 0: not measured
  std::string checked;     // the plan that was run once more
  Nanoseconds measured = 0, predicted = 0;
  std::optional<std::map<std::string, Correction>> corrections;  // with --fit
  std::int64_t steps = 0, outran_host = 0;
  [[nodiscard]] double error() const {
    return static_cast<double>(predicted - measured) / static_cast<double>(measured);
  }
};

// Fits corrections to random strategies that were not sampled, predicted from those that were.
std::map<std::string, Correction> fitted(CalibrationStore& store, Calibrator& calibrator,
                                         const CalibrateRun& run) {
  Calibration measured = store.calibration();
  measured.corrections.clear();
  PlanSet set(run.graph, run.topology, run.options, std::move(measured));
  set.add_random(plans_to_fit, run.setting.seed + 1);
  std::map<std::string, Correction> corrections = calibrator.fit(set.plans());
  store.correct(corrections);
  return corrections;
}

void count(const CalibrationStore& store, const std::vector<Measurement>& measurements, Calibrated& done) {
  for (const Measurement& m : measurements) {
    done.samples += m.seconds.size();
    done.dropped += m.dropped;
  }
  done.durations = measurements.size();
  done.durations_in_all = store.calibration().keys.size();
  done.noise_floor = store.calibration().runs.back().noise_floor;
}

std::string check_text(const Calibrated& done) {
  return fmt::format("{} run once more: {}, predicted {} ({:+.1f} %)", done.checked,
                     pretty(to_seconds(done.measured)), pretty(to_seconds(done.predicted)),
                     100 * done.error());
}

// Checks the calibration by the plan that was added last: it has transfers and keeps all devices busy, if
// there are such plans.
void check(Calibrator& calibrator, const CalibrateRun& run, const NamedSubject& plan,
           const Calibration& measured, Calibrated& done) {
  const ExecutionReport now = calibrator.run_again(plan, measured, run.tolerance);
  done.checked = plan.name;
  done.measured = now.measured.median;
  done.predicted = now.predicted;
  if (std::abs(done.error()) <= run.tolerance) return;
  throw InputError(fmt::format(
      "{}: not written: {}, more than {} % off. Other programs may have kept this machine busy, then or now; "
      "calibrate when it is quiet, or allow more with --tolerance",
      run.output, check_text(done), significant(100 * run.tolerance, 3)));
}

std::string corrections_text(const std::map<std::string, Correction>& corrections) {
  std::string text;
  for (const auto& [name, c] : corrections)
    text += fmt::format("  {} not measured: {} times as estimated + {}, of {} durations\n", name,
                        significant(c.factor, 3), pretty(Seconds(c.overhead)), c.tasks);
  return text.empty() ? "  nothing to fit: all durations of the other plans were measured\n" : text;
}

std::string to_text(const std::string& file, const Calibrated& done) {
  std::string text =
      fmt::format("{}: {} durations measured from {} plan{}, {} in all\n", file, done.durations, done.plans,
                  done.plans == 1 ? "" : "s", done.durations_in_all);
  text += fmt::format("  {} samples, {} interrupted and dropped\n", done.samples, done.dropped);
  if (done.noise_floor > 0)
    text += fmt::format("  equal work differs by {} on this host\n", percent(done.noise_floor));
  text += fmt::format("  {}\n", check_text(done));
  if (done.corrections) text += corrections_text(*done.corrections);
  if (done.outran_host > 0)
    text += fmt::format(
        "  {} of {} steps began after {}, before the host had enqueued them: their durations may contain "
        "waiting for the host\n",
        done.outran_host, done.steps, pretty(to_seconds(gpu::kHoldForHost)));
  return text;
}

nlohmann::ordered_json json_of(const std::string& file, const Calibrated& done) {
  nlohmann::ordered_json json{{"file", file},
                              {"plans", done.plans},
                              {"durations", done.durations},
                              {"durations_in_all", done.durations_in_all},
                              {"samples", done.samples},
                              {"dropped", done.dropped}};
  if (done.noise_floor > 0) json["noise_floor"] = done.noise_floor;
  json["run_once_more"] = {{"plan", done.checked},
                           {"measured_s", to_seconds(done.measured).value},
                           {"predicted_s", to_seconds(done.predicted).value},
                           {"error", done.error()}};
  if (done.corrections) {
    json["corrections"] = nlohmann::ordered_json::array();
    for (const auto& [name, c] : *done.corrections)
      json["corrections"].push_back(
          {{"of", name}, {"factor", c.factor}, {"overhead_s", c.overhead}, {"durations", c.tasks}});
  }
  if (done.outran_host > 0) json["steps_before_the_host"] = done.outran_host;
  return json;
}

}  // namespace

int run_calibrate(const Arguments& arguments, Streams& streams) {
  const CalibrateRun run = calibrate_run_of(arguments);
  if (run.setting.gpus && std::filesystem::exists(run.output))
    require_same_links(load_calibration(run.output), run.output, links_of(run.setting, run.topology));
  const PlanSet set = plans_to_sample(run);
  CalibrationStore store =
      open_store(run.output, run.topology, run_here(run.setting, run.topology), streams.err);
  StatusLine progress(streams.err);
  Calibrator calibrator(run.setting, progress);
  calibrator.sample(set.plans());
  const std::vector<Measurement> measurements = calibrator.measurements();
  Calibrated done;
  done.plans = set.plans().size();
  check(calibrator, run, set.plans().back(), store.with(measurements), done);
  store.add(measurements);
  count(store, measurements, done);
  if (run.fit) done.corrections = fitted(store, calibrator, run);
  done.steps = calibrator.steps();
  done.outran_host = calibrator.outran_host();
  if (arguments.given("json")) {
    give_document(streams, json_of(run.output, done));
  } else {
    streams.out << to_text(run.output, done);
  }
  return 0;
}

}  // namespace pipesim
