#pragma once

#include <cstdint>

#include "tools/interop/framework/framework_run.h"
#include "tools/interop/megatron/megatron_file.h"

namespace pipesim {

/// Reads model, parallelism and batch. Each argument is read, or is known to change neither time nor memory,
/// or is told in `left_out`, as are those that no version of Megatron-LM has. `devices`: of the run.
/// InputError when something is missing, contradicts itself, or pipesim can't express it.
FrameworkRun megatron_run(const MegatronFile& file, std::int64_t devices);

}  // namespace pipesim
