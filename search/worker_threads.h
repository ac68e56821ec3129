#pragma once

#include <tbb/global_control.h>
#include <tbb/task_arena.h>

#include <cstddef>
#include <functional>
#include <mutex>
#include <vector>

namespace pipesim {

/// The threads that a search runs its chains or simulations on. They keep to the deadline of
/// the calling thread.
class WorkerThreads {
 public:
  explicit WorkerThreads(std::size_t threads);  ///< 1 or more

  [[nodiscard]] std::size_t count() const { return count_; }
  /// Calls run(number, worker) once for each number of the list, beginning them in that order. Workers have
  /// the numbers 0 to count() − 1, and each runs one at a time. Returns when all are done.
  using Run = std::function<void(std::size_t number, std::size_t worker)>;
  void run(const std::vector<std::size_t>& numbers, const Run& run);
  /// Runs the work on one of the threads.
  void execute(const std::function<void()>& work);

 private:
  std::size_t count_;
  tbb::global_control allowed_;
  tbb::task_arena arena_;
  std::mutex mutex_;
};

}  // namespace pipesim
