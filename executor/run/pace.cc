#include "executor/run/pace.h"

#include <chrono>

namespace pipesim {
namespace {

std::int64_t steady_nanoseconds() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

}  // namespace

void RealPace::begin_step() { origin_ = steady_nanoseconds(); }

Nanoseconds RealPace::now() const { return steady_nanoseconds() - origin_; }

Nanoseconds RealPace::begin(DeviceId /*device*/, const Instruction& /*instruction*/, Nanoseconds /*ready*/,
                            Communicator& /*world*/, std::int64_t /*tag*/) {
  return now();
}

Nanoseconds RealPace::end(DeviceId /*device*/, const Instruction& /*instruction*/, Nanoseconds /*begun*/) {
  return now();
}

}  // namespace pipesim
