#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tools/interop/settings/settings.h"
#include "tools/interop/torchtitan/torchtitan_flavors.h"

namespace pipesim {

/// Returns the flavor that settings name; InputError by settings.fail() where torchtitan or the zoo has none.
const TorchtitanFlavor& torchtitan_flavor(const Settings& settings, std::string_view main_module);

/// Whether torchtitan has models of this name, such as "llama3".
bool is_torchtitan_module(std::string_view name);

/// What a configuration of torchtitan's main branch sets, by its name, such as "llama3_8b"; nothing: it has
/// none of this name, or one that is not known here.
std::optional<Settings> torchtitan_configuration(std::string_view function);
std::vector<std::string> torchtitan_configurations();

}  // namespace pipesim
