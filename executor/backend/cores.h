#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include "sim/base/units.h"

namespace pipesim {

/// Cores that this process may use.
std::vector<int> allowed_cores();

/// Keeps the calling thread on the core of its device: cores go to devices in order, and around again. Where
/// it is not allowed, the system chooses.
void pin_to_core_of(std::size_t device);

/// SCHED_FIFO for the calling thread, so that others do not interrupt it. False where that is not permitted.
bool run_in_real_time();

/// Memory that this process can still have, of the host's and of what it is allowed (memory_limit()); nothing
/// where that is not known.
std::optional<Bytes> available_memory();

}  // namespace pipesim
