#include "executor/cuda/stream.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <mutex>

#include "executor/cuda/errors.h"
#include "executor/cuda/launch.h"
#include "executor/gpu/machine/library_steps.h"
#include "sim/base/errors.h"

namespace pipesim::gpu {
namespace {

// A function of the host that the stream calls and that waits there. CUDA calls such functions one after
// another, so that only one gate should be closed at a time.
class CudaGate : public Gate {
 public:
  CudaGate(const CudaGpu& gpu, cudaStream_t stream, Nanoseconds limit) : latch_(std::make_shared<Latch>()) {
    latch_->limit = std::chrono::nanoseconds(limit);
    auto held = std::make_unique<std::shared_ptr<Latch>>(latch_);
    check(cudaLaunchHostFunc(stream, hold, held.get()), "cudaLaunchHostFunc", gpu);
    static_cast<void>(held.release());  // hold() deletes it
  }
  ~CudaGate() override { let_go(); }
  CudaGate(const CudaGate&) = delete;
  CudaGate& operator=(const CudaGate&) = delete;
  bool open() override { return let_go(); }

 private:
  struct Latch {
    std::mutex mutex;
    std::condition_variable changed;
    std::chrono::nanoseconds limit{};
    bool open = false, limit_passed = false;
  };
  bool let_go() {
    const std::scoped_lock lock(latch_->mutex);
    latch_->open = true;
    latch_->changed.notify_all();
    return !latch_->limit_passed;
  }
  static void CUDART_CB hold(void* held) {
    const std::unique_ptr<std::shared_ptr<Latch>> latch(static_cast<std::shared_ptr<Latch>*>(held));
    Latch& l = **latch;
    std::unique_lock lock(l.mutex);
    l.limit_passed = !l.changed.wait_for(lock, l.limit, [&] { return l.open; });
  }

  std::shared_ptr<Latch> latch_;  // the stream's, too, which may come to it after this is gone
};

}  // namespace

CudaEvent::CudaEvent(const CudaGpu& of) : gpu(of) {
  gpu.use();
  check(cudaEventCreate(&event), "cudaEventCreate", gpu);
  check(cudaEventCreateWithFlags(&inner, cudaEventDisableTiming), "cudaEventCreate", gpu);
}

CudaEvent::~CudaEvent() {
  cudaSetDevice(gpu.number);
  cudaEventDestroy(event);
  cudaEventDestroy(inner);
}

CudaStream::CudaStream(const CudaDevice& device, cudaStream_t stream, const CudaRecordingNow& now)
    : device_(device), stream_(stream), now_(now), memory_(device.gpu), uploads_(device.gpu, stream) {}

CudaStream::~CudaStream() {
  cudaSetDevice(gpu().number);
  cudaStreamSynchronize(stream_);
  convolutions_.reset();
  cudaStreamDestroy(stream_);
}

void CudaStream::launch(std::size_t body_number, const void* body, std::size_t /*bytes*/,
                        std::int64_t count) {
  gpu().use();
  const cudaError_t error = launch_body(body_number, body, count, device_.multiprocessors, stream_);
  if (error != cudaSuccess) throw_error(error, "launch of body " + std::to_string(body_number), gpu());
}

void CudaStream::multiply(const MatrixProduct& p) {
  if (p.rows == 0 || p.columns == 0 || p.batch == 0) return;
  gpu().use();
  const RelaxedRecording relaxed;
  std::byte* workspace = memory().workspace(kProductWorkspace);
  if (p.inner > 0 && device_.products->multiply(p, stream_, workspace)) return;
  // Some of the library's kernels have a layer of blocks for each pair of matrices: 65,535 at most.
  constexpr std::int64_t most = 1 << 15;
  if (p.batch > most) {
    for (std::int64_t first = 0; first < p.batch; first += most)
      multiply(some_of_batch(p, first, std::min(most, p.batch - first)));
    return;
  }
  const MatrixProduct alone = product_in_scratch(*this, p);
  const Floats& sums = alone.d.elements;
  if (p.inner == 0) {
    zero(sums.memory, bytes_of(sums.stored, p.batch * p.rows * p.columns));
  } else if (!device_.products->multiply(alone, stream_, workspace)) {
    throw DeviceError("cublasLtMatmul on " + gpu().str() + ": cuBLASLt has no algorithm for " +
                      std::to_string(p.batch) + " products of [" + std::to_string(p.rows) + ", " +
                      std::to_string(p.inner) + "] and [" + std::to_string(p.inner) + ", " +
                      std::to_string(p.columns) + "]");
  }
  finish_product(*this, p, sums);
}

void CudaStream::convolve(const Convolution& c) {
  gpu().use();
  const RelaxedRecording relaxed;
  if (convolutions_ == nullptr)
    convolutions_ = std::make_unique<Convolutions>(gpu(), stream_, device_.tf32, device_.part);
  if (same_with_equal_padding(c)) {
    convolve_aligned(c);
  } else {
    convolve_without_padding(*this, c, [this](const Convolution& bare) { convolve_aligned(bare); });
  }
}

// cuDNN's tensor core kernels read 16 bytes at once.
void CudaStream::convolve_aligned(const Convolution& c) {
  using enum Convolution::Wanted;
  Convolution aligned = c;
  const std::int64_t images = c.samples * c.groups;
  struct Operand {
    Floats& floats;
    std::int64_t elements;
    bool written;
  };
  const std::array operands{
      Operand{aligned.x, images * c.in * c.image[0] * c.image[1], c.wanted == InputGradient},
      Operand{aligned.w, c.groups * c.out * c.in * c.kernel[0] * c.kernel[1], c.wanted == WeightGradient},
      Operand{aligned.y, images * c.out * c.result[0] * c.result[1], c.wanted == Result}};
  std::array<void*, 3> moved{};
  for (std::size_t i = 0; i < operands.size(); ++i) {
    const Operand& o = operands.at(i);
    if (reinterpret_cast<std::uintptr_t>(o.floats.memory) % 16 == 0) continue;
    moved.at(i) = o.floats.memory;
    o.floats.memory = scratch(bytes_of(o.floats.stored, o.elements));
    if (!o.written) copy(o.floats.memory, moved.at(i), bytes_of(o.floats.stored, o.elements));
  }
  convolutions_->convolve(aligned, [this](std::size_t bytes) { return scratch(bytes); });
  for (std::size_t i = 0; i < operands.size(); ++i) {
    const Operand& o = operands.at(i);
    if (moved.at(i) != nullptr && o.written)
      copy(moved.at(i), o.floats.memory, bytes_of(o.floats.stored, o.elements));
  }
}

void CudaStream::zero(void* memory, std::size_t bytes) {
  if (bytes == 0) return;
  gpu().use();
  check(cudaMemsetAsync(memory, 0, bytes, stream_), "cudaMemsetAsync", gpu());
}

void CudaStream::copy(void* to, const void* from, std::size_t bytes) {
  if (bytes == 0) return;
  gpu().use();
  check(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, stream_), "cudaMemcpyAsync", gpu());
}

void CudaStream::upload(void* to, const void* from, std::size_t bytes) {
  if (bytes == 0) return;
  gpu().use();
  if (now_.recording == nullptr) {
    uploads_.upload(to, from, bytes);
    return;
  }
  check(cudaMemcpyAsync(to, now_.recording->keep(from, bytes), bytes, cudaMemcpyHostToDevice, stream_),
        "cudaMemcpyAsync", gpu());
}

void CudaStream::download(void* to, const void* from, std::size_t bytes) {
  not_while_recording();
  gpu().use();
  if (bytes > 0)
    check(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToHost, stream_), "cudaMemcpyAsync", gpu());
  finish();
}

// In a recording it is two things: a point that other streams of the recording wait for, and work that sets
// the event each time that the recording is repeated. A stream that takes no part in it yet is outside of it.
void CudaStream::record(Event& event) {
  auto& recorded = dynamic_cast<CudaEvent&>(event);
  gpu().use();
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  if (now_.recording != nullptr)
    check(cudaStreamIsCapturing(stream_, &status), "cudaStreamIsCapturing", gpu());
  if (status == cudaStreamCaptureStatusNone) {
    check(cudaEventRecord(recorded.event, stream_), "cudaEventRecord", gpu());
    recorded.recorded_in = 0;
    return;
  }
  check(cudaEventRecordWithFlags(recorded.event, stream_, cudaEventRecordExternal),
        "cudaEventRecordWithFlags", gpu());
  check(cudaEventRecord(recorded.inner, stream_), "cudaEventRecord", gpu());
  recorded.recorded_in = now_.number;
}

void CudaStream::wait(const Event& event) {
  const auto& awaited = dynamic_cast<const CudaEvent&>(event);
  if (awaited.recorded_in < 0) throw InternalError("a stream waits for an event that nobody recorded");
  gpu().use();
  const bool inside = now_.recording != nullptr && awaited.recorded_in == now_.number;
  const bool outside = now_.recording != nullptr && !inside;
  check(cudaStreamWaitEvent(stream_, inside ? awaited.inner : awaited.event,
                            outside ? cudaEventWaitExternal : cudaEventWaitDefault),
        "cudaStreamWaitEvent", gpu());
}

void CudaStream::repeat(const Recording& recording) {
  not_while_recording();
  gpu().use();
  dynamic_cast<const CudaRecording&>(recording).repeat(stream_);
}

std::unique_ptr<Gate> CudaStream::close_gate(Nanoseconds limit) {
  not_while_recording();
  gpu().use();
  return std::make_unique<CudaGate>(gpu(), stream_, limit);
}

std::byte* CudaStream::scratch(std::size_t bytes) { return memory().scratch().take(bytes); }

void CudaStream::free_scratch() { memory().scratch().free_all(); }

void CudaStream::finish() {
  not_while_recording();
  gpu().use();
  check(cudaStreamSynchronize(stream_), "cudaStreamSynchronize", gpu());
}

WorkMemory& CudaStream::memory() {
  return now_.recording == nullptr ? memory_ : now_.recording->memory_of(*this);
}

void CudaStream::not_while_recording() const {
  if (now_.recording != nullptr) throw InternalError("the host waits for work that is only recorded");
}

}  // namespace pipesim::gpu
