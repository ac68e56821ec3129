#pragma once

#include <nlohmann/json_fwd.hpp>

#include "topologies/memory_overhead.h"

namespace pipesim {

/// As topology files have it: parts that take nothing are left out.
nlohmann::ordered_json overhead_json(const MemoryOverhead& overhead);

}  // namespace pipesim
