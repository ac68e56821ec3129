#include "tools/analysis/fitting/fit_runs.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <set>

#include "costmodel/calibration_store.h"
#include "sim/base/errors.h"
#include "sim/base/rng.h"
#include "sim/base/suggest.h"
#include "tools/analysis/accuracy/predict_run.h"
#include "tools/analysis/inputs/model_and_topology.h"

namespace pipesim {
namespace {

constexpr std::size_t kFewestRuns = 3;

struct UsableRun {
  const MeasuredRun* measured = nullptr;
  Seconds predicted;  // without constants
};
using UsableRuns = std::vector<UsableRun>;

std::vector<ExpressedRun> expressed_of(const UsableRuns& runs) {
  std::vector<ExpressedRun> expressed;
  for (const UsableRun& run : runs) expressed.push_back(*run.measured->run);
  return expressed;
}

UsableRuns usable_runs(const std::vector<MeasuredRun>& runs) {
  UsableRuns usable;
  for (const MeasuredRun& run : runs) {
    if (run.run && run.measured_time.value > 0 && run.fitted.value_or(true)) usable.push_back({&run, {}});
  }
  return usable;
}

void shuffle(UsableRuns& runs, std::uint64_t seed) {
  Rng rng(seed);
  for (std::size_t left = runs.size(); left > 1; --left) std::swap(runs[left - 1], runs[rng.below(left)]);
}

void drop_refused(UsableRuns& runs) {
  const std::vector<PredictedRun> predicted = predict_times(expressed_of(runs));
  UsableRuns kept;
  for (std::size_t i = 0; i < runs.size(); ++i) {
    if (predicted[i].error.empty()) kept.push_back({runs[i].measured, predicted[i].time});
  }
  runs = std::move(kept);
}

// Which links and hosts the runs tell about.
ClusterConstants constants_for(const UsableRuns& runs, const FitSetting& setting) {
  std::set<std::string> kinds, hosts, seen;
  bool several = false, nodes = false, fused = false;
  for (const UsableRun& run : runs) {
    const ExpressedRun& expressed = *run.measured->run;
    const Runtime runtime = parse_runtime(expressed.runtime);
    if (runtime.has_host()) hosts.insert(runtime.name.substr(0, runtime.name.find(':')));
    if (!seen.insert(expressed.topology).second) continue;
    const Topology topology = open_topology(expressed.topology);
    for (const DeviceKind& kind : topology.parts().kinds) {
      kinds.insert(kind.name);
      fused = fused || kind.fused_attention;
    }
    several = several || topology.num_devices() > 1;
    nodes = nodes || topology.num_nodes() > 1;
  }
  if (kinds.size() != 1)
    throw InputError(fmt::format("{}: found runs on {}, allowed: runs on one kind of device", setting.file,
                                 list_names(std::vector<std::string>(kinds.begin(), kinds.end()))));
  ClusterConstants constants;
  constants.device = *kinds.begin();
  constants.source = {setting.file, 0, date_now()};
  const auto add = [&](ConstantKind kind, const std::string& runtime = "") {
    constants.constants.push_back({kind, runtime, 0});
  };
  add(ConstantKind::Products);
  if (fused) add(ConstantKind::Attention);
  add(ConstantKind::Memory);
  add(ConstantKind::Update);
  for (const std::string& host : hosts) add(ConstantKind::Host, host);
  if (several) add(ConstantKind::NodeLinks);
  if (nodes) add(ConstantKind::NetworkLinks);
  if (several) add(ConstantKind::Latency);
  return constants;
}

// Runs of one model on the same devices are a family.
FittedRun fitted_of(const MeasuredRun& run) {
  return {std::log(run.measured_time.value), run.run->model + " on " + run.run->topology};
}

double mean_of(const std::vector<double>& log_errors) {
  double sum = 0;
  for (const double error : log_errors) sum += std::abs(std::exp(error) - 1);
  return log_errors.empty() ? 0 : sum / static_cast<double>(log_errors.size());
}

double share_held(const std::vector<double>& log_errors, const std::vector<double>& deviations) {
  double held = 0;
  for (std::size_t i = 0; i < log_errors.size(); ++i)
    held += interval_around(Seconds(1), deviations[i]).holds(Seconds(std::exp(-log_errors[i]))) ? 1 : 0;
  return log_errors.empty() ? 0 : held / static_cast<double>(log_errors.size());
}

FitErrors errors_of(const ConstantsFit& fit) {
  std::vector<double> deviations;
  for (const std::vector<double>& slopes : fit.sensitivities)
    deviations.push_back(log_deviation(fit.constants, slopes));
  return {fit.before.size(), mean_of(fit.before), mean_of(fit.after), mean_of(fit.left_out),
          share_held(fit.after, deviations)};
}

FitErrors judged_on(const UsableRuns& runs, const ClusterConstants& constants) {
  Calibration calibration;
  calibration.constants = constants;
  const std::vector<PredictedRun> predicted = predict_runs(expressed_of(runs), &calibration);
  std::vector<double> before, after;
  double held = 0;
  for (std::size_t i = 0; i < runs.size(); ++i) {
    const double measured = runs[i].measured->measured_time.value;
    before.push_back(std::log(runs[i].predicted.value / measured));
    after.push_back(std::log(predicted[i].time.value / measured));
    const auto& interval = predicted[i].interval;
    held += interval && interval->holds(Seconds(measured)) ? 1 : 0;
  }
  return {runs.size(), mean_of(before), mean_of(after), 0,
          runs.empty() ? 0 : held / static_cast<double>(runs.size())};
}

}  // namespace

RunsFit fit_runs(const std::vector<MeasuredRun>& runs, const FitSetting& setting,
                 const std::function<void(const std::string& doing)>& progress) {
  RunsFit result;
  result.rows = runs.size();
  UsableRuns usable = usable_runs(runs);
  shuffle(usable, setting.seed);
  usable.resize(std::min(usable.size(), setting.most_runs + setting.most_others));
  progress(fmt::format("predicting {} runs", usable.size()));
  drop_refused(usable);
  result.usable = usable.size();
  if (usable.size() < kFewestRuns)
    throw InputError(
        fmt::format("{}: found {} runs that have a time and can be predicted, allowed: {} or more",
                    setting.file, usable.size(), kFewestRuns));
  const std::size_t used = std::min(setting.most_runs, usable.size());
  UsableRuns others(usable.begin() + static_cast<std::ptrdiff_t>(used), usable.end());
  usable.resize(used);
  others.resize(std::min(others.size(), setting.most_others));
  ClusterConstants start = constants_for(usable, setting);
  start.source.runs = static_cast<std::int64_t>(used);
  std::vector<FittedRun> fitted;
  for (const UsableRun& run : usable) fitted.push_back(fitted_of(*run.measured));
  const std::vector<ExpressedRun> expressed = expressed_of(usable);
  int times = 0;
  const ConstantsFit fit = fit_constants(fitted, start, [&](const ClusterConstants& constants) {
    progress(fmt::format("fitting to {} runs, simulated {} times", used, ++times));
    return log_times(expressed, constants);
  });
  result.constants = fit.constants;
  result.prior_scale = fit.prior_scale;
  result.fitted = errors_of(fit);
  if (!others.empty()) progress(fmt::format("judging by {} other runs", others.size()));
  result.others = judged_on(others, fit.constants);
  if (setting.suggestions > 0) progress("choosing runs to make next");
  result.next = next_runs(runs, fit.constants, setting.suggestions);
  return result;
}

}  // namespace pipesim
