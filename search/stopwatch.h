#pragma once

#include <chrono>

namespace pipesim {

/// Wall time since construction, plus an earlier time.
class Stopwatch {
 public:
  explicit Stopwatch(double seconds_before = 0) : before_(seconds_before) {}
  [[nodiscard]] double seconds() const {
    return before_ + std::chrono::duration<double>(std::chrono::steady_clock::now() - began_).count();
  }

 private:
  double before_;
  std::chrono::steady_clock::time_point began_ = std::chrono::steady_clock::now();
};

}  // namespace pipesim
