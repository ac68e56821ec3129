#include "executor/cuda/activity_collector.h"

#include <cuda_runtime_api.h>
#include <cupti.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <mutex>
#include <new>
#include <string>
#include <utility>
#include <vector>

#include "executor/cuda/activity_records.h"

namespace pipesim {
namespace {

// About 3000 launches with their calls. CUPTI zeroes a buffer in the thread that enqueues, so it is no
// larger.
constexpr std::size_t buffer_bytes = std::size_t{1} << 20;
constexpr std::align_val_t buffer_alignment{64};  // CUPTI asks for 8

struct FreeBuffer {
  void operator()(std::uint8_t* buffer) const { ::operator delete(buffer, buffer_alignment); }
};
using ActivityBuffer = std::unique_ptr<std::uint8_t, FreeBuffer>;

// Where CUPTI's callbacks work: they get no data of ours, come from any thread, and may come until the
// process ends, so this is never destroyed. No lock is held while CUPTI is called, which may call back.
class ActivityStore {
 public:
  static ActivityStore& instance() {
    static ActivityStore& store = *new ActivityStore;
    return store;
  }

  std::uint8_t* lend() {
    {
      const std::lock_guard lock(pool_mutex_);
      if (!pool_.empty()) {
        std::uint8_t* buffer = pool_.back().release();
        pool_.pop_back();
        return buffer;
      }
    }
    return static_cast<std::uint8_t*>(::operator new(buffer_bytes, buffer_alignment));
  }
  void take_back(ActivityBuffer buffer, std::size_t valid, std::size_t dropped) {
    {
      const std::lock_guard lock(reader_mutex_);
      reader_.count_dropped(dropped);
      reader_.read(buffer.get(), valid);
    }
    const std::lock_guard lock(pool_mutex_);
    pool_.push_back(std::move(buffer));
  }
  CollectedActivity take() {
    const std::lock_guard lock(reader_mutex_);
    return reader_.take();
  }
  void count_dropped(std::size_t records) {
    const std::lock_guard lock(reader_mutex_);
    reader_.count_dropped(records);
  }

  std::atomic<bool> in_use{false};  // by a collector

 private:
  std::mutex pool_mutex_;
  std::vector<ActivityBuffer> pool_;
  std::mutex reader_mutex_;
  ActivityReader reader_;
};

void CUPTIAPI lend_buffer(std::uint8_t** buffer, std::size_t* size, std::size_t* most_records) noexcept {
  *buffer = nullptr;
  *size = *most_records = 0;
  try {
    *buffer = ActivityStore::instance().lend();
    *size = buffer_bytes;
  } catch (const std::bad_alloc&) {  // CUPTI counts what it drops
  }
}

void CUPTIAPI take_buffer_back(CUcontext context, std::uint32_t stream, std::uint8_t* buffer,
                               std::size_t /*size*/, std::size_t valid) noexcept {
  if (buffer == nullptr) return;
  std::size_t dropped = 0;
  if (cuptiActivityGetNumDroppedRecords(context, stream, &dropped) != CUPTI_SUCCESS) dropped = 0;
  try {
    ActivityStore::instance().take_back(ActivityBuffer(buffer), valid, dropped);
  } catch (const std::bad_alloc&) {
    ActivityStore::instance().count_dropped(1);
  }
}

void CUPTIAPI ignore_callback(void*, CUpti_CallbackDomain, CUpti_CallbackId, const void*) noexcept {}

std::string refusal_of(CUptiResult result) {
  const char* name = nullptr;
  cuptiGetResultString(result, &name);
  std::string text = "CUPTI refuses: ";
  text += name != nullptr ? name : "error " + std::to_string(result);
  switch (result) {
    case CUPTI_ERROR_INSUFFICIENT_PRIVILEGES:
      return text + "; run as root or set NVreg_RestrictProfilingToAdminUsers=0 for the driver's module";
    case CUPTI_ERROR_VIRTUALIZED_DEVICE_INSUFFICIENT_PRIVILEGES:
      return text + "; the hypervisor forbids it";
    case CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED:
      return text + "; another profiler or debugger is attached to this process";
    default:
      break;
  }
  // Without a driver CUPTI knows no more than "unknown".
  int count = 0;
  const cudaError_t error = cudaGetDeviceCount(&count);
  if (error != cudaSuccess) {
    cudaGetLastError();
    text += std::string("; CUDA: ") + cudaGetErrorString(error);
  }
  return text;
}

Nanoseconds host_clock() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

// The narrowest counts: one that was not interrupted is enough.
std::vector<ClockPair> read_clocks() {
  std::vector<ClockPair> pairs;
  for (int i = 0; i < 32; ++i) {
    std::uint64_t gpu = 0;
    const Nanoseconds before = host_clock();
    if (cuptiGetTimestamp(&gpu) != CUPTI_SUCCESS) continue;
    pairs.push_back({before, static_cast<Nanoseconds>(gpu), host_clock()});
  }
  return pairs;
}

// CUPTI attaches external ids to its records of calls, so calls are recorded, too: NCCL and cuDNN call the
// driver, others the runtime.
constexpr std::array kinds = {
    CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION,
    CUPTI_ACTIVITY_KIND_RUNTIME,
    CUPTI_ACTIVITY_KIND_DRIVER,
    CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL,
    CUPTI_ACTIVITY_KIND_MEMCPY,
    CUPTI_ACTIVITY_KIND_MEMCPY2,
    CUPTI_ACTIVITY_KIND_MEMSET,
};
constexpr CUpti_ExternalCorrelationKind external_kind = CUPTI_EXTERNAL_CORRELATION_KIND_CUSTOM0;

thread_local int open_tasks = 0;  // whose ids were pushed

class CuptiCollector : public ActivityCollector {
 public:
  CuptiCollector() {
    if (!accepted(cuptiGetVersion(&version_))) return;
    if (version_ < CUPTI_API_VERSION) {
      refuse("CUPTI has version " + std::to_string(version_) + ", " + std::to_string(CUPTI_API_VERSION) +
             " is needed");
      return;
    }
    if (store_.in_use.exchange(true)) {
      refuse("another collector is at work in this process");
      return;
    }
    owner_ = true;
    // Nothing is called back: the subscription keeps other profilers out.
    subscribed_ = accepted(cuptiSubscribe(&subscriber_, ignore_callback, nullptr));
    if (subscribed_) accepted(cuptiActivityRegisterCallbacks(lend_buffer, take_buffer_back));
  }
  ~CuptiCollector() override {
    if (!owner_) return;
    collect();
    if (subscribed_) cuptiUnsubscribe(subscriber_);
    store_.in_use = false;
  }
  CuptiCollector(const CuptiCollector&) = delete;
  CuptiCollector& operator=(const CuptiCollector&) = delete;

  [[nodiscard]] std::uint32_t api_version() const override { return version_; }
  [[nodiscard]] std::string unavailable() const override {
    const std::lock_guard lock(mutex_);
    return refusal_;
  }

  bool start() override {
    if (collecting_) return true;
    if (!unavailable().empty()) return false;
    flush();
    store_.take();  // what was left belongs to nobody
    if (!unavailable().empty()) return false;
    for (const CUpti_ActivityKind kind : kinds) {
      if (!accepted(cuptiActivityEnable(kind))) {
        for (const CUpti_ActivityKind enabled : kinds) {
          if (enabled == kind) return false;
          cuptiActivityDisable(enabled);
        }
      }
    }
    clocks_at_start_ = read_clocks();
    collecting_ = true;
    return true;
  }

  void stop() override {
    if (!collecting_.exchange(false)) return;
    clocks_at_stop_ = read_clocks();
    for (const CUpti_ActivityKind kind : kinds) accepted(cuptiActivityDisable(kind));
    started_ = true;
  }

  CollectedActivity collect() override {
    stop();
    if (!std::exchange(started_, false)) return {};
    flush();
    CollectedActivity activity = store_.take();
    activity.clocks_at_start = std::move(clocks_at_start_);
    activity.clocks_at_stop = std::move(clocks_at_stop_);
    return activity;
  }

  void begin_task(std::uint64_t external) override {
    if (!collecting_.load(std::memory_order_relaxed)) return;
    if (accepted(cuptiActivityPushExternalCorrelationId(external_kind, external))) ++open_tasks;
  }
  void end_task() override {
    if (open_tasks == 0) return;
    --open_tasks;
    std::uint64_t popped = 0;
    accepted(cuptiActivityPopExternalCorrelationId(external_kind, &popped));
  }

 private:
  // Forced: a buffer with a record that never gets its end would be kept back.
  void flush() {
    accepted(cuptiActivityFlushAll(CUPTI_ACTIVITY_FLAG_FLUSH_FORCED));
    std::size_t dropped = 0;
    if (accepted(cuptiActivityGetNumDroppedRecords(nullptr, 0, &dropped))) store_.count_dropped(dropped);
  }

  bool accepted(CUptiResult result) {
    if (result == CUPTI_SUCCESS) return true;
    refuse(refusal_of(result));
    return false;
  }
  void refuse(const std::string& why) {
    const std::lock_guard lock(mutex_);
    if (refusal_.empty()) refusal_ = why;
  }

  ActivityStore& store_ = ActivityStore::instance();
  bool owner_ = false, subscribed_ = false;
  std::uint32_t version_ = 0;
  CUpti_SubscriberHandle subscriber_ = nullptr;
  std::atomic<bool> collecting_{false};
  bool started_ = false;  // and stopped, and not collected
  std::vector<ClockPair> clocks_at_start_, clocks_at_stop_;
  mutable std::mutex mutex_;  // of the following
  std::string refusal_;
};

}  // namespace

std::unique_ptr<ActivityCollector> make_activity_collector() { return std::make_unique<CuptiCollector>(); }

}  // namespace pipesim
