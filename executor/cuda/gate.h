#pragma once

#include <cuda_runtime_api.h>

#include <memory>

#include "executor/cuda/gpus.h"
#include "executor/gpu/machine/stream.h"

namespace pipesim::gpu {

/// A function of the host that the stream calls and that waits there. CUDA calls such functions one after
/// another, so that only one gate should be closed at a time.
class CudaGate : public Gate {
 public:
  /// DeviceError when the stream does not take it. `limit` in nanoseconds, as of Stream::close_gate().
  CudaGate(const CudaGpu& gpu, cudaStream_t stream, Nanoseconds limit);
  ~CudaGate() override;
  CudaGate(const CudaGate&) = delete;
  CudaGate& operator=(const CudaGate&) = delete;
  bool open() override;

 private:
  struct Latch;
  static void CUDART_CB hold(void* latch);

  std::shared_ptr<Latch> latch_;  // the stream's, too, which may come to it after this is gone
};

}  // namespace pipesim::gpu
