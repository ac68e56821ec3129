#pragma once

#include <string>
#include <vector>

#include "tools/interop/settings/settings.h"
#include "tools/interop/shell/shell_script.h"

namespace pipesim {

/// Settings of Megatron-Bridge as arguments of Megatron-LM, each at its setting's place. Those that have
/// none, and are not known to be without effect, are told in `left_out`. InputError where one is no constant.
std::vector<ShellWord> bridge_arguments(const Settings& settings, std::vector<std::string>& left_out);

}  // namespace pipesim
