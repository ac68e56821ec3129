#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "tools/accuracy/predict_run.h"

namespace pipesim {

/// A row of a table with what was predicted of it, or why nothing was.
struct JudgedRun {
  MeasuredRun measured;
  std::optional<PredictedMemory> predicted;
  std::string reason;
  /// Predicted by measured - 1: above 0 where the prediction is too high. Nothing where either is missing.
  [[nodiscard]] std::optional<double> peak_error() const;
  [[nodiscard]] std::optional<double> state_error() const;
};

/// Errors of the runs of a group.
struct GroupErrors {
  std::string group;
  std::size_t runs = 0;
  double median = 0, mean = 0;  ///< of absolute errors
  double bias = 0;              ///< mean of the errors with their signs
  double worst = 0;             ///< with its sign
  std::string worst_run;
  double state_median = 0;  ///< the absolute error of the state
};

struct ErrorsReport {
  std::string table;                ///< the file
  std::vector<JudgedRun> runs;      ///< all rows, in order
  std::vector<GroupErrors> groups;  ///< all first, then in the order in which rows name them
  std::vector<std::pair<std::string, std::size_t>> reasons;  ///< rows not predicted, most frequent first
};

/// Predicts every run that can be expressed.
ErrorsReport judge(const std::string& table, std::vector<MeasuredRun> runs);

std::string to_text(const ErrorsReport& report, bool each_row);
std::string to_markdown(const ErrorsReport& report);  ///< the same tables for a document
nlohmann::ordered_json json_of(const ErrorsReport& report);

}  // namespace pipesim
