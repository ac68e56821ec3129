#pragma once

#include <cstdint>
#include <string>

#include "executor/gpu/activity/activity.h"

namespace pipesim {

/// Records the activity of this process's GPUs, and the task that it belongs to. Only one may exist at a
/// time.
///
/// No call throws. When the profiler refuses something, unavailable() says why, and the caller measures times
/// with CUDA's events instead. Records collected before are then unreliable.
class ActivityCollector {
 public:
  virtual ~ActivityCollector() = default;

  /// The version of CUPTI's API: 130001 for CUDA 13.0 Update 1.
  [[nodiscard]] virtual std::uint32_t api_version() const = 0;
  /// Why nothing can be collected: the first failure at creation or in any call since; "" when there is none.
  [[nodiscard]] virtual std::string unavailable() const = 0;

  /// Records the work that is enqueued from now on. Returns false when that is not possible.
  virtual bool start() = 0;
  /// Ends the recording. No task may be open, and the caller must have waited for the devices, since running
  /// work has no end time.
  virtual void stop() = 0;
  /// Returns what was recorded since start(), after a stop() if that was not done. Each record is handed out
  /// once.
  virtual CollectedActivity collect() = 0;

  /// Work that this thread enqueues belongs to the task until end_task(). Tasks may nest; the inner one
  /// counts. Both calls do nothing while nothing is collected.
  virtual void begin_task(std::uint64_t external) = 0;
  virtual void end_task() = 0;
};

/// Calls begin_task() and end_task() around a block. It does nothing where there is no collector.
class TaskActivityScope {
 public:
  TaskActivityScope(ActivityCollector* collector, std::uint64_t external) : collector_(collector) {
    if (collector_ != nullptr) collector_->begin_task(external);
  }
  ~TaskActivityScope() {
    if (collector_ != nullptr) collector_->end_task();
  }
  TaskActivityScope(const TaskActivityScope&) = delete;
  TaskActivityScope& operator=(const TaskActivityScope&) = delete;

 private:
  ActivityCollector* collector_;
};

}  // namespace pipesim
