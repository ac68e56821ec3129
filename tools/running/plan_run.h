#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <ostream>
#include <string>
#include <vector>

#include "executor/cpu/cpu_backend.h"
#include "executor/measuring/step_sampling.h"
#include "executor/ranks/device_worlds.h"
#include "executor/run/emulation.h"
#include "executor/run/training.h"
#include "executor/tensors/file_source.h"
#include "tools/analysis/inputs/subject.h"
#include "tools/base/shown_progress.h"
#include "tools/running/execution_report.h"
#include "tools/running/gpu_devices.h"

namespace pipesim {

/// How plans are run.
struct RunSetting {
  bool emulated = false;
  std::optional<GpuSetting> gpus = {};  ///< none: devices are threads
  std::string rendezvous;               ///< where processes meet; empty: as their launcher says
  EmulatedPace::Sleep sleep = EmulatedPace::Sleep::UntilDeadline;
  std::int64_t checked_steps = 0;  ///< to compare with the unsplit model first
  bool oversubscribe = false, arenas = false;
  std::int64_t steps = 20, warmup = 3;
  std::uint64_t seed = 1;
  CpuBackend::Settings cpu;
  std::vector<std::string> data;  ///< as parse_tensor_file() reads them
  std::vector<double> slow;       ///< of emulated devices, by device: see EmulatedPace; empty: none is
};

/// The devices of this process, together with those of other processes that mpirun, or for GPUs another
/// launcher, has started. InputError as launched_rank; UsageError for --rendezvous without other processes or
/// on CPUs.
std::unique_ptr<DeviceWorlds> open_worlds(const RunSetting& setting, const Topology& topology);
/// Refuses to run beside other processes, for commands that run everything in this one. InputError,
/// UsageError.
void require_one_process(const RunSetting& setting, const std::string& command);

/// Devices that have a shard, ascending.
std::vector<DeviceId> devices_of(const Strategy& strategy);
/// InputError when there are fewer cores than devices that this process runs.
void require_cores(const Strategy& strategy, const RunSetting& setting, const DeviceWorlds& worlds);

/// The durations of tasks that a run of a plan measured.
struct PlanSamples {
  TaskDurations durations;
  SampledSteps sampled;  ///< with measurements by key, as durations.keys
};

/// One plan, run as the setting says. All arguments must outlive it.
class PlanRun {
 public:
  PlanRun(const Subject& subject, const RunSetting& setting, DeviceWorlds& worlds);
  ~PlanRun();

  /// Runs the plan. The report is complete on rank 0 only. DeviceError, which names the first tensor, when
  /// the loss becomes NaN.
  ExecutionReport report(ShownProgress* progress);

  /// Runs the plan in turns with other plans, so that other load on the host affects all of them: begin(),
  /// take_turn() as often as wanted, finish(). The first `warmup` iterations of a turn are not counted.
  void begin();
  void take_turn(std::int64_t warmup, std::int64_t steps, ShownProgress* progress);
  ExecutionReport finish();

  /// Runs the plan to take samples. Their keys name devices as the topology does, with the part of a GPU that
  /// they are. All devices must be in this process.
  PlanSamples sample(const SamplingLength& length);

  /// Warns on `err` when the calibration was measured on other parts of a GPU than run now, even if the
  /// topology names the measured ones.
  void warn_of_share(std::ostream& err) const;

  /// Predicted and measured timeline of the median iteration; after report().
  void write_trace(const std::string& path);

 private:
  std::unique_ptr<Backend> make_backend(bool watch_for_nan);
  std::unique_ptr<Training> make_training(Backend& backend);
  void require_memory(const std::vector<DeviceMemory>& peaks) const;
  std::map<TensorId, std::vector<float>> whole_outputs(const Training& training);
  void check();
  StepEquality worst_of_ranks(StepEquality mine);
  void note_loss();
  [[noreturn]] void explain_nan(std::int64_t step);
  void predict(ExecutionReport& report);
  void fill(ExecutionReport& report);
  const StepRecord& median_step();

  const Subject& subject_;
  const RunSetting& setting_;
  DeviceWorlds& worlds_;
  std::unique_ptr<GpuDevices> gpus_;  ///< null: other devices
  Topology topology_;                 ///< the subject's; kinds are called what part of a GPU they are
  CostModel costs_;
  SyntheticSource synthetic_;
  FileSource source_;
  DeviceWorlds reference_world_;
  std::unique_ptr<Backend> backend_;
  std::unique_ptr<Training> training_;
  std::vector<StepRecord> records_;
  std::vector<double> losses_;
  std::vector<StepEquality> equalities_;
  Bytes reference_memory_{0};  ///< of the unsplit model, while it runs
  std::int64_t steps_ = 0;     ///< that the training has run
};

}  // namespace pipesim
