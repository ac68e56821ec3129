#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "tools/analysis/plans/memory_list.h"

namespace pipesim {

/// A table of what is held at the peak, with `most` lines and one for all others, and a table of switches.
/// `time`: of the plan itself.
std::string to_text(const MemoryList& list, Nanoseconds time, const Topology& topology, std::size_t most);
/// The member "memory_at_peak", with all lines.
nlohmann::ordered_json json_of(const MemoryList& list, const Topology& topology);

}  // namespace pipesim
