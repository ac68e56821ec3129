#pragma once

#include <pybind11/pybind11.h>

#include <atomic>
#include <condition_variable>
#include <exception>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>

#include "tools/base/search_progress.h"

namespace pipesim {

/// Text that came out of files; what is no UTF-8 is replaced. Needs the interpreter's lock.
pybind11::str utf8(std::string_view text);

/// Long work on a thread of its own, while a thread of Python waits for it.
class BackgroundCall {
 public:
  BackgroundCall() = default;
  virtual ~BackgroundCall() = default;
  BackgroundCall(const BackgroundCall&) = delete;
  BackgroundCall& operator=(const BackgroundCall&) = delete;

  /// Does the work of `call` without the interpreter's lock. The calling thread waits; meanwhile it hands
  /// progress to `progress` (None: to nobody) as (text, share, best time in seconds), and lets Python's
  /// handlers of signals run. What they or `progress` raise ends the work and is raised again, but for
  /// StopIteration, with which the work ends with what it has so far. Throws what work() throws.
  ///
  /// `name`: what is shown of work that reports no progress, "search: 1.2 s".
  static void run(const std::shared_ptr<BackgroundCall>& call, const std::string& name,
                  const pybind11::object& progress);

  /// Whether the work is to end with what it has so far. Any thread may ask.
  [[nodiscard]] bool stop_requested() const { return stop_; }
  /// Replaces the progress that was not told yet. Any thread may report.
  void report(const Progress& progress);

 protected:
  /// The work. Its thread's deadline passes when it is asked to stop.
  virtual void work() = 0;

 private:
  void work_to_end();
  bool ended(std::optional<Progress>& progress);
  void stop_and_wait();

  std::atomic<bool> stop_ = false;
  std::exception_ptr error_;
  std::mutex mutex_;
  std::condition_variable ended_;
  bool done_ = false;                 // guarded, as is
  std::optional<Progress> progress_;  // the latest that was not told
};

}  // namespace pipesim
