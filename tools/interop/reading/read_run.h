#pragma once

#include <cstdint>
#include <string>

#include "tools/interop/framework/framework_run.h"

namespace pipesim {

/// A run of Megatron-LM or torchtitan, whichever the file is of. `path`: a script that starts it, or a
/// configuration; FILE.py:FUNCTION is one of several in a file. `devices`: of the run; `of_a_host`: those of
/// a host. InputError `FILE:LINE: …` when it is of another tool, or pipesim can't express it.
FrameworkRun read_framework_run(const std::string& path, std::int64_t devices, std::int64_t of_a_host);

}  // namespace pipesim
