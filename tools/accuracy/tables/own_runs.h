#pragma once

#include <string>
#include <vector>

#include "tools/accuracy/tables/measured_run.h"
#include "tools/accuracy/tables/measured_table.h"

namespace pipesim {

/// Columns that a table of one's own runs must have: model and devices (as `--model` and `--topology` take
/// them), recipe, batch (samples of an iteration). Others may be there:
///
/// - name: what to call the run
/// - time: of an iteration, as "1.42 s" or "372 ms"
/// - memory: the peak of the fullest device, as "59 GB"
/// - status: "ok" or nothing; "oom" where memory was short; all else is a run that failed for another reason
/// - group: groups that errors are reported for, divided by semicolons
inline const std::vector<std::string> kColumnsOfOwnRuns{"model", "devices", "recipe", "batch"};

/// The rows of such a table, each as it says. InputError for a malformed table; models, topologies and
/// recipes that can't be read are told where runs are predicted.
std::vector<MeasuredRun> own_runs(const MeasuredTable& table);

}  // namespace pipesim
