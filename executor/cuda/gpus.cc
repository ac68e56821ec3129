#include "executor/cuda/gpus.h"

#include <cuda_runtime_api.h>

#include "executor/cuda/errors.h"
#include "sim/base/errors.h"

namespace pipesim::gpu {

void CudaGpu::use() const { check(cudaSetDevice(number), "cudaSetDevice", *this); }

std::string cuda_version_text(int version) {
  return std::to_string(version / 1000) + "." + std::to_string(version % 1000 / 10);
}

int driver_version() {
  int version = 0;
  return cudaDriverGetVersion(&version) == cudaSuccess ? version : 0;
}

int count_gpus(std::string& why) {
  int count = 0;
  const cudaError_t error = cudaGetDeviceCount(&count);
  if (error == cudaSuccess && count > 0) return count;
  if (error == cudaSuccess) {
    why = "the driver has none";
  } else if (error != cudaErrorInsufficientDriver) {
    why = cudaGetErrorString(error);
  } else if (driver_version() == 0) {
    why = "no driver of NVIDIA is loaded (libcuda.so.1)";
  } else {
    why = "the driver serves CUDA " + cuda_version_text(driver_version()) + ", CUDA " +
          cuda_version_text(CUDART_VERSION) + " is needed";
  }
  cudaGetLastError();  // told, and not to be told again by the next call
  return 0;
}

CudaGpu gpu_to_use(int number) {
  CudaGpu gpu{.number = number, .name = "?"};
  cudaDeviceProp properties;
  check(cudaGetDeviceProperties(&properties, number), "cudaGetDeviceProperties", gpu);
  gpu.name = properties.name;
  gpu.capability = 10 * properties.major + properties.minor;
  gpu.multiprocessors = properties.multiProcessorCount;
  constexpr int oldest = 75;
  if (gpu.capability < oldest)
    throw DeviceError(gpu.str() + " has compute capability " + std::to_string(properties.major) + "." +
                      std::to_string(properties.minor) + ", pipesim needs 7.5 or newer");
  return gpu;
}

}  // namespace pipesim::gpu
