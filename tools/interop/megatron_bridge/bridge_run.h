#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "tools/interop/framework/framework_run.h"

namespace pipesim {

/// Whether a file of this name and text is a configuration of Megatron-Bridge: YAML, or a recipe in Python.
bool is_bridge_file(const std::string& file, std::string_view text);

/// `function`: of a recipe in Python, where there are several; "": the only one. `devices`: of the run.
/// InputError `FILE:LINE: …` when something is missing, or pipesim can't express it.
FrameworkRun bridge_run(std::string_view text, const std::string& file, const std::string& function,
                        std::int64_t devices);

}  // namespace pipesim
