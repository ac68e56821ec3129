#pragma once

#include <memory>
#include <string>

#include "executor/gpu/cuda_library.h"
#include "executor/gpu/machine.h"
#include "sim/base/errors.h"

namespace pipesim::gpu {

/// A machine of this computer's GPUs; null where it has none, or libpipesim_cuda.so is not built: `why` says
/// which.
inline std::unique_ptr<Machine> cuda_machine(const MachineSetting& setting, std::string& why) {
  try {
    const CudaLibrary& library = load_cuda_library();
    why = library.inventory().no_gpus;
    if (why.empty()) return library.machine(setting);
  } catch (const DeviceError& error) {
    why = error.what();
  }
  return nullptr;
}

}  // namespace pipesim::gpu
