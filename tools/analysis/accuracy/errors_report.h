#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tools/analysis/accuracy/predict_run.h"

namespace pipesim {

/// The figures that are compared: the time of an iteration, the time of a mixture if its parts did not slow
/// each other, the speedup over another run (MeasuredRun::compared_with), the memory at its peak, and the
/// memory that is left at its end.
enum class RunFigure : std::uint8_t { Time, Undisturbed, Speedup, Peak, State };
inline constexpr RunFigure kRunFigures[] = {RunFigure::Time, RunFigure::Undisturbed, RunFigure::Speedup,
                                            RunFigure::Peak, RunFigure::State};
std::string_view name_of(RunFigure figure);  ///< "time", "undisturbed", "speedup", "peak", "state"

/// A row of a table with what was predicted of it, or why nothing was.
struct JudgedRun {
  MeasuredRun measured;
  std::optional<PredictedRun> predicted;
  std::string reason;
  std::optional<double> measured_speedup = {}, predicted_speedup = {};  ///< where both runs have a time
  /// Predicted by measured - 1: above 0 where the prediction is too high. Nothing where either is missing.
  [[nodiscard]] std::optional<double> error(RunFigure figure) const;
};

/// Errors of the runs of a group.
struct GroupErrors {
  std::string group;
  std::size_t runs = 0;
  double median = 0, mean = 0;  ///< of absolute errors
  double bias = 0;              ///< mean of the errors with their signs
  double worst = 0;             ///< with its sign
  std::string worst_run;
};

struct FigureErrors {
  RunFigure figure = RunFigure::Time;
  std::vector<GroupErrors> groups;  ///< all first, then by name
  /// Spearman's correlation of the error and a trait, the strongest first. Traits that are the same in all
  /// runs are left out.
  std::vector<std::pair<std::string, double>> traits;
};

/// How well predicted times order runs. A workload is compared where it has two runs or more.
struct RunOrder {
  std::size_t workloads = 0, runs = 0;  ///< that are compared
  std::optional<double> spearman;       ///< of all runs, predicted against measured
  /// How much slower than the fastest run of a workload is the run that is predicted to be the fastest
  /// (top1), and the best of the three that are predicted to be the fastest (top3). Only workloads of more
  /// than three runs count for top3.
  double top1_mean = 0, top1_worst = 0, top3_mean = 0, top3_worst = 0;
  std::string top1_worst_workload;
};

/// Verdicts on memory where it is known whether the run had enough.
struct MemoryVerdicts {
  std::size_t ran_and_fits = 0, ran_but_does_not_fit = 0, short_but_fits = 0, short_and_does_not_fit = 0;
  [[nodiscard]] std::size_t runs() const {
    return ran_and_fits + ran_but_does_not_fit + short_but_fits + short_and_does_not_fit;
  }
};

/// How often measured times lie in the intervals of their predictions.
struct IntervalsHeld {
  std::size_t runs = 0;  ///< that have a measured time and an interval
  std::size_t held = 0;  ///< of these
  double width = 0;      ///< mean of half the interval by the prediction
};

struct ErrorsReport {
  std::string table;                 ///< the file
  std::vector<JudgedRun> runs;       ///< all rows, in order
  std::size_t predicted = 0;         ///< of these
  std::vector<FigureErrors> errors;  ///< of what is measured
  RunOrder order;
  MemoryVerdicts verdicts;
  IntervalsHeld intervals;
  std::vector<std::pair<std::string, std::size_t>> reasons;  ///< rows not predicted, most frequent first
};

/// Predicts every run that can be expressed. `calibration` and `predicted`: see predict_runs().
ErrorsReport judge(const std::string& table, std::vector<MeasuredRun> runs,
                   const Calibration* calibration = nullptr,
                   const std::function<void(std::size_t done)>& predicted = {});

}  // namespace pipesim
