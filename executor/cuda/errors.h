#pragma once

#include <cublasLt.h>
#include <cuda.h>
#include <cuda_runtime_api.h>
#include <cudnn.h>

#include <string>

#include "executor/cuda/gpus.h"

namespace pipesim::gpu {

/// DeviceError: "cudaMalloc on gpu0 (NVIDIA H200): out of memory (cudaErrorMemoryAllocation)".
[[noreturn]] void throw_device_error(const std::string& call, const CudaGpu& gpu, const std::string& text,
                                     const std::string& name);
[[noreturn]] void throw_error(cudaError_t error, const std::string& call, const CudaGpu& gpu);
[[noreturn]] void throw_error(cublasStatus_t error, const std::string& call, const CudaGpu& gpu);
[[noreturn]] void throw_error(cudnnStatus_t error, const std::string& call, const CudaGpu& gpu);
/// Throws the driver's error, with its name and text where the driver knows them.
[[noreturn]] void throw_error(CUresult error, const std::string& call, const CudaGpu& gpu);

/// DeviceError unless the call was successful.
template <class Status>
void check(Status status, const char* call, const CudaGpu& gpu) {
  if (status != Status{}) throw_error(status, call, gpu);
}

}  // namespace pipesim::gpu
