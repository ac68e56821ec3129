#pragma once

#include <span>

#include "executor/gpu/machine/machine.h"

namespace pipesim::gpu {

/// A check that every machine of at least that many devices must pass. It fails as tests do.
struct MachineCheck {
  const char* name;
  void (*run)(Machine& machine, int devices);
};

std::span<const MachineCheck> machine_checks();

}  // namespace pipesim::gpu
