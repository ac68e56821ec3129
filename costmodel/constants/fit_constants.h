#pragma once

#include <cstddef>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "costmodel/constants/cluster_constants.h"

namespace pipesim {

/// A measured run, for a fit.
struct FittedRun {
  double measured = 0;  ///< ln of its seconds
  std::string family;   ///< runs that have much in common
};

/// Returns ln of the predicted seconds of all runs under some constants.
using PredictRuns = std::function<std::vector<double>(const ClusterConstants& constants)>;

/// Constants with what is known of the runs that they were fitted to.
struct ConstantsFit {
  ClusterConstants constants;
  std::vector<double> before, after;               ///< ln(predicted / measured) of each run
  std::vector<double> left_out;                    ///< the same, its family left out of the fit
  std::vector<std::vector<double>> sensitivities;  ///< of each run to each constant, see log_deviation()
  double noise = 0;        ///< standard deviation of ln(measured / predicted) of the runs themselves
  double prior_scale = 1;  ///< what prior_deviation() was multiplied with
};

/// Changes in ln(predicted seconds) by ln of each constant, from differences. A row for each run.
std::vector<std::vector<double>> sensitivities_of(const ClusterConstants& constants,
                                                  std::span<const double> predicted,
                                                  const PredictRuns& predict);

/// Returns the interval around a time that `predict` found with the constants. `predict` is called once more
/// for each of them.
PredictionInterval interval_of(const ClusterConstants& constants, Seconds predicted,
                               const std::function<Seconds(const ClusterConstants&)>& predict);

/// Returns the constants that make runs most likely, with normal priors around factors of 1
/// (prior_deviation()): Gauss–Newton steps, runs that are far off weighted down (Huber). Priors are made
/// tighter where that better predicts families that are left out of the fit. `start` names the constants. The
/// discrepancy is the least with which 90 % of runs lie in their intervals when predicted without their
/// families (or without themselves, where there are fewer than three families). InputError when there are no
/// runs.
ConstantsFit fit_constants(const std::vector<FittedRun>& runs, const ClusterConstants& start,
                           const PredictRuns& predict);

/// The numbers of the `count` candidates that say most about the constants, best first; each is chosen as if
/// those before it had been measured. `sensitivities`: of the candidates.
std::vector<std::size_t> most_informative(const ClusterConstants& constants,
                                          const std::vector<std::vector<double>>& sensitivities,
                                          std::size_t count);

}  // namespace pipesim
