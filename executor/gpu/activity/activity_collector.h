#pragma once

#include <cstdint>
#include <string>

#include "executor/gpu/activity/activity.h"

namespace pipesim {

/// Records what the GPUs of this process do, and for which task. One at a time.
///
/// No call throws: when the profiler refuses something, unavailable() says why, and the caller takes times
/// another way (CUDA's events). What was collected before is not to be relied on then.
class ActivityCollector {
 public:
  virtual ~ActivityCollector() = default;

  /// CUPTI's: 130001 for CUDA 13.0 Update 1.
  [[nodiscard]] virtual std::uint32_t api_version() const = 0;
  /// Why nothing can be collected, from creation or from any call since, the first reason; "" when it can.
  [[nodiscard]] virtual std::string unavailable() const = 0;

  /// What is enqueued from now on is recorded. False when it can't be.
  virtual bool start() = 0;
  /// Ends it. No task is open; the caller has waited for the devices, since what still runs has no end yet.
  virtual void stop() = 0;
  /// What was recorded since start(); stops first if that was not done. Each record is handed out once.
  virtual CollectedActivity collect() = 0;

  /// What this thread enqueues belongs to the task until end_task(); tasks may nest, the inner one counts. Do
  /// nothing while nothing is collected.
  virtual void begin_task(std::uint64_t external) = 0;
  virtual void end_task() = 0;
};

/// begin_task() and end_task() around a block; nothing where there is no collector.
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
