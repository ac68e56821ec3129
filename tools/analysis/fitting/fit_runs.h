#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "costmodel/constants/fit_constants.h"
#include "tools/analysis/accuracy/tables/measured_run.h"
#include "tools/analysis/fitting/next_runs.h"

namespace pipesim {

/// What to fit.
struct FitSetting {
  std::string file;            ///< the table's name, for messages
  std::size_t most_runs = 30;  ///< to fit to; the others of the table judge the fit
  std::size_t most_others = 200;
  std::size_t suggestions = 3;
  std::uint64_t seed = 0;  ///< which runs are chosen
};

/// Mean absolute errors of predicted times, as shares of the measured ones.
struct FitErrors {
  std::size_t runs = 0;
  double before = 0, after = 0;
  double left_out = 0;        ///< with the run's family left out; 0 for runs that the fit did not see
  double intervals_held = 0;  ///< share of the runs whose measured time lies in the interval
};

struct RunsFit {
  ClusterConstants constants;
  double prior_scale = 1;  ///< see ConstantsFit
  FitErrors fitted, others;
  std::size_t rows = 0;       ///< of the table
  std::size_t usable = 0;     ///< of these: measured, and predicted
  std::vector<NextRun> next;  ///< the one that tells most first
};

/// Fits constants to some of the runs. InputError when fewer than three runs have a time and can be
/// predicted, or when they are of several kinds of devices. `progress` is told what is going on.
RunsFit fit_runs(const std::vector<MeasuredRun>& runs, const FitSetting& setting,
                 const std::function<void(const std::string& doing)>& progress);

}  // namespace pipesim
