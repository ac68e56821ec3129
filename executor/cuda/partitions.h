#pragma once

#include <cuda.h>
#include <cuda_runtime_api.h>

#include <vector>

#include "executor/cuda/gpus.h"

namespace pipesim::gpu {

/// Equal parts of a GPU's multiprocessors, as green contexts of its primary context. Memory, events and
/// kernels belong to the whole GPU; work in a part's streams runs on that part's multiprocessors.
class Partitions {
 public:
  /// The largest parts that the GPU can be divided into. InputError when it can't be divided into so many;
  /// DeviceError when the driver is older than CUDA 12.5.
  Partitions(const CudaGpu& gpu, int parts);
  ~Partitions();
  Partitions(const Partitions&) = delete;
  Partitions& operator=(const Partitions&) = delete;

  /// The number of multiprocessors that the driver gave the part.
  [[nodiscard]] int multiprocessors(int part) const;
  /// Returns a stream that waits for no other stream; `priority` is as CUDA numbers it. It must be ended by
  /// cudaStreamDestroy() before these parts end.
  [[nodiscard]] cudaStream_t make_stream(int part, int priority) const;

 private:
  struct Part {
    CUgreenCtx context = nullptr;
    int multiprocessors = 0;
  };
  CudaGpu gpu_;
  std::vector<Part> parts_;
};

}  // namespace pipesim::gpu
