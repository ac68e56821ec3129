#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <map>
#include <memory>

#include "executor/cuda/convolutions.h"
#include "executor/cuda/memory.h"
#include "executor/cuda/products.h"
#include "executor/gpu/machine/stream.h"

namespace pipesim::gpu {

class CudaRecording;

/// A device: a GPU, or a part of one.
struct CudaDevice {
  CudaGpu gpu;
  int multiprocessors = 0;  ///< its own
  int part = -1;            ///< of the GPU; −1: the whole GPU
  bool tf32 = false;
  std::unique_ptr<Products> products;
};

/// The recording that a machine is making.
struct CudaRecordingNow {
  CudaRecording* recording = nullptr;  ///< null while it makes none
  std::int64_t number = 0;             ///< of all that it has made, from 1
};

class CudaEvent : public Event {
 public:
  explicit CudaEvent(const CudaGpu& gpu);
  ~CudaEvent() override;
  CudaEvent(const CudaEvent&) = delete;
  CudaEvent& operator=(const CudaEvent&) = delete;

  CudaGpu gpu;
  cudaEvent_t event = nullptr;    ///< with time, also of each repetition of a recording
  cudaEvent_t inner = nullptr;    ///< an edge inside the recording that is being made
  std::int64_t recorded_in = -1;  ///< number of the recording it was last recorded in; 0: none, −1: never
};

class CudaStream : public Stream {
 public:
  /// Takes ownership of the stream. The device and `now` must outlive it.
  CudaStream(const CudaDevice& device, cudaStream_t stream, const CudaRecordingNow& now);
  ~CudaStream() override;
  CudaStream(const CudaStream&) = delete;
  CudaStream& operator=(const CudaStream&) = delete;

  void launch(std::size_t body_number, const void* body, std::size_t bytes, std::int64_t count) override;
  void multiply(const MatrixProduct& product) override;
  void convolve(const Convolution& convolution) override;
  void zero(void* memory, std::size_t bytes) override;
  void copy(void* to, const void* from, std::size_t bytes) override;
  void upload(void* to, const void* from, std::size_t bytes) override;
  void download(void* to, const void* from, std::size_t bytes) override;
  void record(Event& event) override;
  void wait(const Event& event) override;
  void repeat(const Recording& recording) override;
  [[nodiscard]] std::unique_ptr<Gate> close_gate(Nanoseconds limit) override;
  std::byte* scratch(std::size_t bytes) override;
  void free_scratch() override;
  void finish() override;

  [[nodiscard]] cudaStream_t stream() const { return stream_; }
  [[nodiscard]] const CudaGpu& gpu() const { return device_.gpu; }

 private:
  WorkMemory& memory();
  void convolve_aligned(const Convolution& convolution);
  void not_while_recording() const;

  const CudaDevice& device_;
  cudaStream_t stream_;
  const CudaRecordingNow& now_;
  WorkMemory memory_;
  UploadRing uploads_;
  std::unique_ptr<Convolutions> convolutions_;
};

/// A CUDA graph, with the memory that its work uses.
class CudaRecording : public Recording {
 public:
  /// Begins to record the work that is given to `first` and to all streams that wait for it.
  explicit CudaRecording(CudaStream& first);
  ~CudaRecording() override;
  CudaRecording(const CudaRecording&) = delete;
  CudaRecording& operator=(const CudaRecording&) = delete;
  /// Ends the recording, on the same stream. From then on it may be repeated.
  void end(CudaStream& first);
  void repeat(cudaStream_t stream) const;

  WorkMemory& memory_of(const CudaStream& stream);
  /// Returns a copy of host memory that stays unchanged.
  const std::byte* keep(const void* from, std::size_t bytes);

 private:
  CudaGpu gpu_;
  MemoryStack kept_;
  std::map<const CudaStream*, WorkMemory> memory_;  // by stream
  cudaGraph_t graph_ = nullptr;
  cudaGraphExec_t runnable_ = nullptr;
};

}  // namespace pipesim::gpu
