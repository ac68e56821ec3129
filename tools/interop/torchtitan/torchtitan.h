#pragma once

#include <string>
#include <vector>

#include "taskgraph/schedules/schedule.h"
#include "tools/interop/framework/framework.h"

namespace pipesim {

/// What torchtitan runs, by the documentation of its settings.
Framework torchtitan_framework();

/// 0.2, the last with TOML files, and the main branch, whose configurations are functions in Python.
const std::vector<FrameworkVersion>& torchtitan_versions();

/// A schedule as torchtitan's CSV: a line for each group of devices, cells STAGE ACTION MICROBATCH such as
/// 0F3, with F forward, B backward, I gradients of inputs, W gradients of weights.
std::string torchtitan_schedule(const PipelineSchedule& schedule);

/// A field of the configuration: "parallelism.tensor_parallel_degree" and its value as the command line and
/// Python write it.
struct TorchtitanField {
  std::string path, value;
  bool quoted = false;  ///< a text, which Python puts in quotes
};
/// All but the modules of each model part, which the command line can't take.
std::vector<TorchtitanField> torchtitan_fields(const FrameworkPlan& plan);

/// A configuration in Python with its fields as overrides of the command line, or for 0.2 a TOML file with
/// the model in Python; the schedule, a script that launches it, the hosts and the order of ranks.
std::vector<ExportedFile> torchtitan_files(const FrameworkPlan& plan);

}  // namespace pipesim
