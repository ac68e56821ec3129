#pragma once

#include <cstddef>

#include "executor/program/program.h"

namespace pipesim {

/// Gives every buffer a place for the whole run. Buffers whose instructions follow each other in
/// Program::order may share it: the largest are placed first, each as low as those allow that are in use at
/// the same time (greedy by size: Pisarchyk and Lee, "Efficient memory management for deep neural net
/// inference", 2020, section 5.2). Where nothing else makes the next user of a place wait for the one before,
/// its instruction waits from now on, on its own device, for one that comes earlier in that order; so lists
/// that could not wait in a circle still can't.
ArenaPlan plan_arenas(Program& program, std::size_t num_devices);

}  // namespace pipesim
