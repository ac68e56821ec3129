#pragma once

#include <span>

#include "tools/interop/settings/known_settings.h"
#include "tools/interop/settings/settings.h"

namespace pipesim {

/// Every key of torchtitan's TOML files, or of its configurations in Python.
std::span<const KnownSettings> torchtitan_keys(bool main);

/// Keys of earlier releases get the names of 0.2.
void rename_older_keys(Settings& settings);

}  // namespace pipesim
