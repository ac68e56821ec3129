#pragma once

#include <string>
#include <string_view>

#include "tools/interop/settings/settings.h"

namespace pipesim {

/// The values of a YAML file of mappings, lists and plain or quoted values, joined by dots. A text of several
/// lines is its first line; anchors and tags are code. `source`: the file's name. InputError `FILE:LINE: …`
/// where a line is neither.
Settings yaml_settings(std::string_view text, const std::string& source);

}  // namespace pipesim
