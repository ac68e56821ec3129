// Work that is done again and again, as CUDA graphs.

#include <cstring>

#include "executor/cuda/errors.h"
#include "executor/cuda/stream.h"
#include "sim/base/errors.h"

namespace pipesim::gpu {

CudaRecording::CudaRecording(CudaStream& first) : gpu_(first.gpu()), kept_(gpu_, MemoryStack::Place::Host) {
  gpu_.use();
  check(cudaStreamBeginCapture(first.stream(), cudaStreamCaptureModeThreadLocal), "cudaStreamBeginCapture",
        gpu_);
}

// Nothing may use its memory any more.
CudaRecording::~CudaRecording() {
  for (const auto& [stream, memory] : memory_) memory.finish_gpu();
  cudaSetDevice(gpu_.number);
  if (runnable_ != nullptr) {
    cudaDeviceSynchronize();
    cudaGraphExecDestroy(runnable_);
  }
  if (graph_ != nullptr) cudaGraphDestroy(graph_);
}

void CudaRecording::end(CudaStream& first) {
  gpu_.use();
  check(cudaStreamEndCapture(first.stream(), &graph_), "cudaStreamEndCapture", gpu_);
  if (graph_ == nullptr) throw InternalError("a recording ended twice");
  check(cudaGraphInstantiate(&runnable_, graph_, 0), "cudaGraphInstantiate", gpu_);
}

void CudaRecording::repeat(cudaStream_t stream) const {
  if (runnable_ == nullptr) throw InternalError("a recording that has not ended is repeated");
  check(cudaGraphLaunch(runnable_, stream), "cudaGraphLaunch", gpu_);
}

WorkMemory& CudaRecording::memory_of(const CudaStream& stream) {
  return memory_.try_emplace(&stream, stream.gpu()).first->second;
}

const std::byte* CudaRecording::keep(const void* from, std::size_t bytes) {
  std::byte* kept = kept_.take(bytes);
  std::memcpy(kept, from, bytes);
  return kept;
}

}  // namespace pipesim::gpu
