#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include "sim/base/units.h"

namespace pipesim {

/// Cores that this process may use.
std::vector<int> allowed_cores();

/// Keeps the calling thread on the core of its device. Cores are assigned to devices in order, starting again
/// after the last. If that is not allowed, the system chooses the core.
void pin_to_core_of(std::size_t device);

/// Sets SCHED_FIFO for the calling thread, so that others do not interrupt it. False if that is not
/// permitted.
bool run_in_real_time();

/// Memory that this process can still get, limited by the host and by memory_limit(); nothing when that is
/// not known.
std::optional<Bytes> available_memory();

}  // namespace pipesim
