#pragma once

#include <cstddef>

#include "executor/program/program.h"
#include "sim/timeline.h"

namespace pipesim {

/// Assigns every buffer a place for the whole run. Buffers may share a place if the instructions of one
/// follow those of the other in Program::order and begin, in the simulation, when those have ended: a wait
/// for a place then delays nobody who is on time. The largest buffers are placed first, each as low as the
/// buffers in use at the same time allow (greedy by size: Pisarchyk and Lee, "Efficient memory management for
/// deep neural net inference", 2020, section 5.2). If nothing else makes the next user of a place wait for
/// the previous one, its instruction gets a new wait for one on its own device that is earlier in that order.
/// Such waits follow the order, so they add no deadlock.
ArenaPlan plan_arenas(Program& program, std::size_t num_devices, const Timeline& simulated);

}  // namespace pipesim
