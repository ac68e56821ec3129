#pragma once

#include <string>

namespace pipesim::gpu {

/// A GPU that is used.
struct CudaGpu {
  int number = 0;  ///< as CUDA counts
  std::string name;
  int capability = 0;  ///< 90 for 9.0
  int multiprocessors = 0;
  /// "gpu0 (NVIDIA H200)"
  [[nodiscard]] std::string str() const { return "gpu" + std::to_string(number) + " (" + name + ")"; }
  /// Makes this the GPU of this thread's next CUDA calls.
  void use() const;
};

/// CUDA's version number as text: "13.0" for 13000.
std::string cuda_version_text(int version);
/// The newest version of CUDA that the driver supports, such as 13000; 0 without a driver.
int driver_version();
/// The number of GPUs. When there are none, `why` gets the reason.
int count_gpus(std::string& why);
/// Returns the GPU of this number. DeviceError when the library has no code for it.
CudaGpu gpu_to_use(int number);

}  // namespace pipesim::gpu
