#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <thread>

#include "executor/operators/device_code.h"

namespace pipesim::gpu {

/// Nanoseconds of a clock that never goes back, the same for all that a device computes: the GPU's global
/// timer, which may tick in steps of up to a microsecond; the steady clock on the host.
PIPESIM_DEVICE inline std::int64_t nanoseconds() {
#ifdef __CUDA_ARCH__
  std::int64_t now;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now)::"memory");
  return now;
#else
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
#endif
}

/// Returns when nanoseconds() has come to `time`.
PIPESIM_DEVICE inline void wait_until(std::int64_t time) {
  for (std::int64_t now = nanoseconds(); now < time; now = nanoseconds()) {
#ifdef __CUDA_ARCH__
    constexpr std::int64_t longest = 500'000;  // a thread sleeps up to twice as long as it asks for
    const std::int64_t half = (time - now) / 2;
    __nanosleep(static_cast<unsigned>(half < longest ? half : longest));
#else
    std::this_thread::yield();
#endif
  }
}

/// A lock in device memory, 0 at first, which one thread of a device holds at a time. Its holder must wait
/// for nothing else, because the other threads may spin until it is free.
class DeviceLock {
 public:
  PIPESIM_DEVICE explicit DeviceLock(std::uint32_t* taken) : taken_(taken) {
#ifdef __CUDA_ARCH__
    while (atomicCAS(taken_, 0U, 1U) != 0) __nanosleep(20);
    __threadfence();
#else
    while (std::atomic_ref(*taken_).exchange(1, std::memory_order_acquire) != 0) std::this_thread::yield();
#endif
  }
  PIPESIM_DEVICE ~DeviceLock() {
#ifdef __CUDA_ARCH__
    __threadfence();
    atomicExch(taken_, 0U);
#else
    std::atomic_ref(*taken_).store(0, std::memory_order_release);
#endif
  }
  DeviceLock(const DeviceLock&) = delete;
  DeviceLock& operator=(const DeviceLock&) = delete;

 private:
  std::uint32_t* taken_;
};

}  // namespace pipesim::gpu
