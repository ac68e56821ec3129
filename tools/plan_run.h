#pragma once

#include <cstdint>
#include <memory>
#include <ostream>
#include <string>
#include <vector>

#include "executor/communication/device_worlds.h"
#include "executor/cpu/cpu_backend.h"
#include "executor/training.h"
#include "tools/arguments.h"
#include "tools/execution_report.h"
#include "tools/subject.h"

namespace pipesim {

/// How plans are run.
struct RunSetting {
  bool emulated = false;
  bool check = false;  ///< compare with the unsplit model first
  bool oversubscribe = false;
  std::int64_t steps = 20, warmup = 3;
  std::uint64_t seed = 1;
  CpuBackend::Settings cpu;
  std::vector<double> slow;  ///< of emulated devices, by device: see EmulatedPace; empty: none is
};

/// --steps, --warmup, --seed, --learning-rate, --threads-per-device, --oversubscribe and --no-realtime.
std::vector<Option> run_options();
RunSetting run_setting_of(const Arguments& arguments);

/// Devices that have a shard, ascending.
std::vector<DeviceId> devices_of(const Strategy& strategy);
/// InputError when there are fewer cores than devices that this process runs.
void require_cores(const Strategy& strategy, const RunSetting& setting, const DeviceWorlds& worlds);

/// One plan, run as the setting says. All arguments must outlive it.
class PlanRun {
 public:
  PlanRun(const Subject& subject, const RunSetting& setting, DeviceWorlds& worlds);
  ~PlanRun();

  /// Runs it; complete on rank 0 only. DeviceError when the loss becomes NaN, names the first tensor.
  ExecutionReport report(std::ostream& progress);
  /// Predicted and measured timeline of the median iteration; after report().
  void write_trace(const std::string& path);

 private:
  std::unique_ptr<Backend> make_backend(bool watch_for_nan);
  std::unique_ptr<Training> make_training(Backend& backend);
  std::map<TensorId, std::vector<float>> whole_outputs(const Training& training);
  void check(ExecutionReport& report);
  StepEquality worst_of_ranks(StepEquality mine);
  void measure(ExecutionReport& report, std::ostream& progress);
  void note_loss(ExecutionReport& report, std::int64_t step);
  [[noreturn]] void explain_nan(std::int64_t step);
  void predict(ExecutionReport& report);
  void fill(ExecutionReport& report);
  const StepRecord& median_step();

  const Subject& subject_;
  const RunSetting& setting_;
  DeviceWorlds& worlds_;
  CostModel costs_;
  SyntheticSource source_;
  DeviceWorlds reference_world_;
  std::unique_ptr<Backend> backend_;
  std::unique_ptr<Training> training_;
  std::vector<StepRecord> records_;
};

}  // namespace pipesim
