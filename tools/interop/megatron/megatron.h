#pragma once

#include <string>
#include <vector>

#include "tools/interop/framework/framework.h"

namespace pipesim {

/// What Megatron-LM runs, by the documentation of its settings.
Framework megatron_framework();

/// Releases of Megatron core, and the main branch.
const std::vector<FrameworkVersion>& megatron_versions();

/// An argument of Megatron-LM and its values.
struct MegatronArgument {
  std::string flag;  ///< "--num-layers"
  std::vector<std::string> values;
};
/// Arguments of the model, its parallelism and its batch; not of data, learning rates and checkpoints.
std::vector<MegatronArgument> megatron_arguments(const FrameworkPlan& plan);

/// The arguments, a script that launches them, the hosts and the order of ranks.
std::vector<ExportedFile> megatron_files(const FrameworkPlan& plan);

}  // namespace pipesim
