#include <fmt/format.h>

#include <cmath>
#include <filesystem>
#include <map>
#include <ostream>

#include "costmodel/calibration_store.h"
#include "executor/cpu/kernels/images/convolution.h"
#include "executor/gpu/machine/cuda_library.h"
#include "executor/measuring/host_noise.h"
#include "sim/base/errors.h"
#include "tools/cli/figures.h"
#include "tools/commands/execution/run_setting_options.h"
#include "tools/commands/execution_commands.h"
#include "tools/commands/options/shared_options.h"
#include "tools/inputs/calibration_use.h"
#include "tools/inputs/model_and_topology.h"
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

// Keys of transfers do not tell emulated links from others, nor whose they are.
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

// Random strategies that were not sampled; predicted by what was.
std::string fit(CalibrationStore& store, Calibrator& calibrator, const CalibrateRun& run) {
  Calibration measured = store.calibration();
  measured.corrections.clear();
  PlanSet set(run.graph, run.topology, run.options, std::move(measured));
  set.add_random(plans_to_fit, run.setting.seed + 1);
  const std::map<std::string, Correction> corrections = calibrator.fit(set.plans());
  store.correct(corrections);
  std::string text;
  for (const auto& [name, c] : corrections)
    text += fmt::format("  {} not measured: {} times as estimated + {}, of {} durations\n", name,
                        significant(c.factor, 3), pretty(Seconds(c.overhead)), c.tasks);
  return text.empty() ? "  nothing to fit: all durations of the other plans were measured\n" : text;
}

std::string summary(const std::string& file, const CalibrationStore& store,
                    const std::vector<Measurement>& measurements, std::size_t plans) {
  std::size_t samples = 0;
  std::int64_t dropped = 0;
  for (const Measurement& m : measurements) {
    samples += m.seconds.size();
    dropped += m.dropped;
  }
  const CalibrationRun& run = store.calibration().runs.back();
  std::string text =
      fmt::format("{}: {} durations measured from {} plan{}, {} in all\n", file, measurements.size(), plans,
                  plans == 1 ? "" : "s", store.calibration().keys.size());
  text += fmt::format("  {} samples, {} interrupted and dropped\n", samples, dropped);
  if (run.noise_floor > 0)
    text += fmt::format("  equal work differs by {} on this host\n", percent(run.noise_floor));
  return text;
}

// Of the plan that was added last: it has transfers and keeps all devices busy, if there are such plans.
std::string checked(Calibrator& calibrator, const CalibrateRun& run, const NamedSubject& plan,
                    const Calibration& measured) {
  const ExecutionReport now = calibrator.run_again(plan, measured, run.tolerance);
  const double off = 100 * now.error();
  const std::string found =
      fmt::format("{} run once more: {}, predicted {} ({:+.1f} %)", plan.name,
                  pretty(to_seconds(now.measured.median)), pretty(to_seconds(now.predicted)), off);
  if (std::abs(now.error()) <= run.tolerance) return fmt::format("  {}\n", found);
  throw InputError(fmt::format(
      "{}: not written: {}, more than {} % off. Other programs may have kept this machine busy, then or now; "
      "calibrate when it is quiet, or allow more with --tolerance",
      run.output, found, significant(100 * run.tolerance, 3)));
}

// "" when the host was always ahead.
std::string host_note(const Calibrator& calibrator) {
  if (calibrator.outran_host() == 0) return "";
  return fmt::format(
      "  {} of {} steps began after {}, before the host had enqueued them: their durations may contain "
      "waiting for the host\n",
      calibrator.outran_host(), calibrator.steps(), pretty(to_seconds(gpu::kHoldForHost)));
}

}  // namespace

int run_calibrate(const Arguments& arguments, Streams& streams) {
  const CalibrateRun run = calibrate_run_of(arguments);
  if (run.setting.gpus && std::filesystem::exists(run.output))
    require_same_links(load_calibration(run.output), run.output, links_of(run.setting, run.topology));
  const PlanSet set = plans_to_sample(run);
  CalibrationStore store =
      open_store(run.output, run.topology, run_here(run.setting, run.topology), streams.err);
  Calibrator calibrator(run.setting, streams.err);
  calibrator.sample(set.plans());
  const std::vector<Measurement> measurements = calibrator.measurements();
  const std::string check = checked(calibrator, run, set.plans().back(), store.with(measurements));
  store.add(measurements);
  streams.out << summary(run.output, store, measurements, set.plans().size()) << check;
  if (run.fit) streams.out << fit(store, calibrator, run);
  streams.out << host_note(calibrator);
  return 0;
}

}  // namespace pipesim
