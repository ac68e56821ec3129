#include "executor/cuda/gate.h"

#include <chrono>
#include <condition_variable>
#include <mutex>

#include "executor/cuda/errors.h"

namespace pipesim::gpu {

struct CudaGate::Latch {
  std::mutex mutex;
  std::condition_variable changed;
  std::chrono::nanoseconds limit;
  bool open = false, limit_passed = false;
};

CudaGate::CudaGate(const CudaGpu& gpu, cudaStream_t stream, Nanoseconds limit)
    : latch_(std::make_shared<Latch>()) {
  latch_->limit = std::chrono::nanoseconds(limit);
  auto held = std::make_unique<std::shared_ptr<Latch>>(latch_);
  check(cudaLaunchHostFunc(stream, hold, held.get()), "cudaLaunchHostFunc", gpu);
  static_cast<void>(held.release());  // hold() deletes it
}

CudaGate::~CudaGate() { open(); }

bool CudaGate::open() {
  const std::scoped_lock lock(latch_->mutex);
  latch_->open = true;
  latch_->changed.notify_all();
  return !latch_->limit_passed;
}

void CudaGate::hold(void* held) {
  const std::unique_ptr<std::shared_ptr<Latch>> latch(static_cast<std::shared_ptr<Latch>*>(held));
  Latch& l = **latch;
  std::unique_lock lock(l.mutex);
  l.limit_passed = !l.changed.wait_for(lock, l.limit, [&] { return l.open; });
}

}  // namespace pipesim::gpu
