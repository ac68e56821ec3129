#pragma once

#include <atomic>
#include <cstdint>
#include <memory>

#include "sim/base/deadline.h"

namespace pipesim {

/// A clock that goes on by a second at every look, so that tests count looks and depend on no machine.
class FakeClock {
 public:
  [[nodiscard]] Deadline::WallClock wall_clock() const {
    return [looks = looks_] { return static_cast<double>((*looks)++); };
  }
  /// A deadline that passes at the look after so many.
  [[nodiscard]] Deadline after(std::int64_t looks) const {
    return Deadline(static_cast<double>(looks), wall_clock());
  }
  [[nodiscard]] std::int64_t looks() const { return *looks_; }

 private:
  std::shared_ptr<std::atomic<std::int64_t>> looks_ = std::make_shared<std::atomic<std::int64_t>>(0);
};

}  // namespace pipesim
