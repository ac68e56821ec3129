#pragma once

#include <cstdlib>
#include <memory>
#include <string>
#include <string_view>

#include "executor/gpu/machine/cuda_library.h"
#include "executor/gpu/machine/machine.h"
#include "sim/base/errors.h"

namespace pipesim::gpu {

/// PIPESIM_TEST_MACHINE=cuda: tests that can run on a GPU or on the simulated machine use the GPU.
inline bool gpu_is_tested() {
  const char* wanted = std::getenv("PIPESIM_TEST_MACHINE");
  return wanted != nullptr && std::string_view(wanted) == "cuda";
}

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
