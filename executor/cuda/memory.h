#pragma once

#include <cuda_runtime_api.h>

#include <array>
#include <cstddef>
#include <vector>

#include "executor/cuda/gpus.h"

namespace pipesim::gpu {

inline constexpr std::size_t kDeviceAlignment = 256;  ///< bytes; what cudaMalloc() promises

/// While it exists, a recording thread may make calls that are otherwise forbidden (cudaMalloc for instance).
/// They do not affect the recording.
class RelaxedRecording {
 public:
  RelaxedRecording() { cudaThreadExchangeStreamCaptureMode(&mode_); }
  ~RelaxedRecording() { cudaThreadExchangeStreamCaptureMode(&mode_); }
  RelaxedRecording(const RelaxedRecording&) = delete;
  RelaxedRecording& operator=(const RelaxedRecording&) = delete;

 private:
  cudaStreamCaptureMode mode_ = cudaStreamCaptureModeRelaxed;
};

/// Allocates at least one byte, so a null pointer always means that there is no more memory.
std::byte* allocate_on(const CudaGpu& gpu, std::size_t bytes);
void release_on(const CudaGpu& gpu, std::byte* memory);

/// Memory handed out in stack order, in blocks that are kept until it is destroyed. All uses of the memory
/// must be over by then.
class MemoryStack {
 public:
  enum class Place : unsigned char { Device, Host };  ///< Host: pinned, for copies in stream order
  MemoryStack(const CudaGpu& gpu, Place place) : gpu_(gpu), place_(place) {}
  ~MemoryStack();
  MemoryStack(const MemoryStack&) = delete;
  MemoryStack& operator=(const MemoryStack&) = delete;

  /// Aligned to 256. DeviceError when there is no more.
  std::byte* take(std::size_t bytes);
  /// Allows work that is noted later to use the same memory again.
  void free_all();

 private:
  struct Block {
    std::byte* memory = nullptr;
    std::size_t size = 0;
  };
  Block make_block(std::size_t bytes);

  CudaGpu gpu_;
  Place place_;
  std::vector<Block> blocks_;
  std::size_t block_ = 0, used_ = 0;  // of the block that is given out now
};

/// Memory that the work of a stream uses internally, in that stream's order.
class WorkMemory {
 public:
  explicit WorkMemory(const CudaGpu& gpu)
      : gpu_(gpu), scratch_(gpu, MemoryStack::Place::Device), workspace_(gpu, MemoryStack::Place::Device) {}
  MemoryStack& scratch() { return scratch_; }
  /// Returns the same memory each time, at least as large as the first request.
  std::byte* workspace(std::size_t bytes);
  /// Returns when nothing runs on the GPU.
  void finish_gpu() const;

 private:
  CudaGpu gpu_;
  MemoryStack scratch_, workspace_;
  std::byte* taken_ = nullptr;  // of workspace_
};

/// Pinned memory that uploads of a stream pass through. A block is written again when its copies are done.
class UploadRing {
 public:
  UploadRing(const CudaGpu& gpu, cudaStream_t stream) : gpu_(gpu), stream_(stream) {}
  /// The stream must be done.
  ~UploadRing();
  UploadRing(const UploadRing&) = delete;
  UploadRing& operator=(const UploadRing&) = delete;
  void upload(void* to, const void* from, std::size_t bytes);

 private:
  struct Block {
    std::byte* memory = nullptr;
    std::size_t used = 0;
    cudaEvent_t done = nullptr;
  };
  void next_block();

  CudaGpu gpu_;
  cudaStream_t stream_;
  std::array<Block, 4> blocks_{};
  std::size_t block_ = 0;
};

}  // namespace pipesim::gpu
