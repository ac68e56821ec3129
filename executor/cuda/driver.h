#pragma once

#include "executor/cuda/gpus.h"

namespace pipesim::gpu {

/// Finds a function of the driver (libcuda.so.1) through the runtime, so that the library starts without a
/// driver. `version`: the first version of CUDA with this interface, such as 12050. DeviceError when the
/// driver is older.
void* find_driver_function(const char* name, int version, const CudaGpu& gpu);

template <class Function>
Function driver_function(const char* name, int version, const CudaGpu& gpu) {
  return reinterpret_cast<Function>(find_driver_function(name, version, gpu));
}

}  // namespace pipesim::gpu
