#pragma once

#include <pybind11/pybind11.h>

#include <chrono>
#include <limits>
#include <optional>
#include <utility>

#include "python/module/interpreter_lock.h"
#include "sim/base/deadline.h"

namespace pipesim {

/// Lets Python's handlers of signals run, some times a second, while a thread of Python works for long.
class SignalWatch {
 public:
  /// Whether a handler raised an exception.
  bool heard() {
    constexpr std::chrono::milliseconds kBetween{50};
    if (const Clock::time_point now = Clock::now(); !raised_ && now >= next_) {
      next_ = now + kBetween;
      const Locked locked;
      if (PyErr_CheckSignals() != 0) raised_.emplace();
    }
    return raised_.has_value();
  }
  /// Raises that exception. The caller must hold the interpreter's lock.
  void raise() {
    if (raised_) throw std::move(*raised_);
  }

 private:
  using Clock = std::chrono::steady_clock;
  Clock::time_point next_ = Clock::now();
  std::optional<pybind11::error_already_set> raised_;
};

/// Does work of one thread that obeys the thread's deadline, without the interpreter's lock. What a handler
/// of signals raises ends the work and is raised again.
template <class Work>
auto interruptible(const Work& work) {
  SignalWatch signals;
  const Deadline until(std::numeric_limits<double>::infinity(), {}, [&] { return signals.heard(); });
  const auto unlocked = [&] {
    const Unlocked released;
    const KeepTo keep(until);
    return work();
  };
  try {
    auto result = unlocked();
    signals.raise();
    return result;
  } catch (const OutOfTime&) {
    signals.raise();
    throw;
  }
}

}  // namespace pipesim
