#pragma once

#include "executor/cuda/gpus.h"

namespace pipesim::gpu {

/// A function of the driver (libcuda.so.1), which is found by the runtime: the library starts without one.
/// `version`: of CUDA, where its interface began, as 12050. DeviceError that says so when the driver is
/// older.
void* find_driver_function(const char* name, int version, const CudaGpu& gpu);

template <class Function>
Function driver_function(const char* name, int version, const CudaGpu& gpu) {
  return reinterpret_cast<Function>(find_driver_function(name, version, gpu));
}

}  // namespace pipesim::gpu
