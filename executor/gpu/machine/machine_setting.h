#pragma once

#include "sim/base/ids.h"

namespace pipesim::gpu {

/// Which GPUs become the devices of a machine, and how.
struct MachineSetting {
  DeviceId first_device{0};  ///< of the topology: those of this process are numbered through from there on
  int gpu = 0;               ///< as CUDA numbers them: of the first device, or of all virtual ones
  int devices = 1;           ///< that many GPUs from there on …
  /// … or equal parts of one GPU's multiprocessors, which share its memory and the way to it.
  bool virtual_devices = false;
  /// Products of float32 may be formed of factors with 10 bits of mantissa instead of 23 (TensorFloat32).
  bool tf32 = false;
};

}  // namespace pipesim::gpu
