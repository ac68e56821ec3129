#pragma once

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <string>
#include <thread>

namespace pipesim {

/// Ends the process when it hangs after a failure, as in a library that waits for a peer that has died.
class ShutdownLimit {
 public:
  explicit ShutdownLimit(std::chrono::milliseconds limit) : limit_(limit) {}
  /// Call it when everything has ended in time.
  ~ShutdownLimit();
  ShutdownLimit(const ShutdownLimit&) = delete;
  ShutdownLimit& operator=(const ShutdownLimit&) = delete;

  /// Starts the time limit, which ends when this is destroyed. When it passes, the process prints the first
  /// reason, if stderr accepts it, and ends with exit status 3. That happens even to a process that does not
  /// hang, and whose own results are complete but take longer to write. May be called from any thread.
  void expect_end(const std::string& reason);

 private:
  std::chrono::milliseconds limit_;
  std::mutex mutex_;  // of the following
  std::condition_variable ended_;
  bool over_ = false;
  std::thread thread_;
};

}  // namespace pipesim
