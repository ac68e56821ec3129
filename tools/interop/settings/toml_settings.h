#pragma once

#include <string>
#include <string_view>

#include "tools/interop/settings/settings.h"

namespace pipesim {

/// The values of a TOML file, tables joined by dots. `source`: its name. InputError `FILE:LINE: …` where it
/// is none.
Settings toml_settings(std::string_view text, const std::string& source);

}  // namespace pipesim
