#pragma once

#include <span>

#include "executor/gpu/machine/machine.h"

namespace pipesim::gpu {

/// What every machine must do, of at least that many devices. A check fails as tests do.
struct MachineCheck {
  const char* name;
  void (*run)(Machine& machine, int devices);
};

std::span<const MachineCheck> machine_checks();

}  // namespace pipesim::gpu
