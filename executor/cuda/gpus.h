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
  /// What this thread asks of CUDA next is meant for this GPU.
  void use() const;
};

/// "13.0" of 13000.
std::string cuda_version_text(int version);
/// The newest CUDA that the driver serves, as 13000; 0 without a driver.
int driver_version();
/// How many GPUs there are; when none, `why` says why.
int count_gpus(std::string& why);
/// DeviceError when the library has no code for it.
CudaGpu gpu_to_use(int number);

}  // namespace pipesim::gpu
