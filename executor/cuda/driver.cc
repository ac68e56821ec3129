#include "executor/cuda/driver.h"

#include <cuda_runtime_api.h>

#include "sim/base/errors.h"

namespace pipesim::gpu {

void* find_driver_function(const char* name, int version, const CudaGpu& gpu) {
  void* function = nullptr;
  cudaDriverEntryPointQueryResult found = cudaDriverEntryPointSymbolNotFound;
  const cudaError_t error = cudaGetDriverEntryPointByVersion(name, &function, static_cast<unsigned>(version),
                                                             cudaEnableDefault, &found);
  if (error == cudaSuccess && found == cudaDriverEntryPointSuccess && function != nullptr) return function;
  cudaGetLastError();  // told
  throw DeviceError(std::string(name) + " on " + gpu.str() + ": the driver serves CUDA " +
                    cuda_version_text(driver_version()) + ", a driver of CUDA " + cuda_version_text(version) +
                    " or newer is needed");
}

}  // namespace pipesim::gpu
