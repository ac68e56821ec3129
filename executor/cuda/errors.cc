#include "executor/cuda/errors.h"

#include <array>

#include "executor/cuda/driver.h"
#include "sim/base/errors.h"

namespace pipesim::gpu {

// check() compares with Status{}.
static_assert(cudaSuccess == cudaError_t{} && CUBLAS_STATUS_SUCCESS == cublasStatus_t{} &&
              CUDNN_STATUS_SUCCESS == cudnnStatus_t{} && CUDA_SUCCESS == CUresult{});

void throw_device_error(const std::string& call, const CudaGpu& gpu, const std::string& text,
                        const std::string& name) {
  throw DeviceError(call + " on " + gpu.str() + ": " + text + " (" + name + ")");
}

void throw_error(cudaError_t error, const std::string& call, const CudaGpu& gpu) {
  cudaGetLastError();  // told
  throw_device_error(call, gpu, cudaGetErrorString(error), cudaGetErrorName(error));
}

void throw_error(cublasStatus_t error, const std::string& call, const CudaGpu& gpu) {
  throw_device_error(call, gpu, cublasLtGetStatusString(error), cublasLtGetStatusName(error));
}

void throw_error(cudnnStatus_t error, const std::string& call, const CudaGpu& gpu) {
  std::array<char, 512> text{};
  cudnnGetLastErrorString(text.data(), text.size());
  throw_device_error(call, gpu, text.front() == 0 ? "failed" : text.data(), cudnnGetErrorString(error));
}

void throw_error(CUresult error, const std::string& call, const CudaGpu& gpu) {
  const std::string number = "error " + std::to_string(static_cast<int>(error)) + " of the driver";
  const char *name = nullptr, *text = nullptr;
  try {
    driver_function<CUresult (*)(CUresult, const char**)>("cuGetErrorName", 6000, gpu)(error, &name);
    driver_function<CUresult (*)(CUresult, const char**)>("cuGetErrorString", 6000, gpu)(error, &text);
  } catch (const DeviceError&) {
    // Without the driver's functions, the message only has the error's number.
  }
  throw_device_error(call, gpu, text == nullptr ? "failed" : text, name == nullptr ? number : name);
}

}  // namespace pipesim::gpu
