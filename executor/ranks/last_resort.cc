#include "executor/ranks/last_resort.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>

#include "sim/base/units.h"

namespace pipesim {

LastResort::~LastResort() {
  {
    const std::lock_guard lock(mutex_);
    over_ = true;
  }
  ended_.notify_all();
  if (thread_.joinable()) thread_.join();
}

void LastResort::expect_end(const std::string& reason) {
  const std::lock_guard lock(mutex_);
  if (over_ || thread_.joinable()) return;
  thread_ = std::thread([this, reason] {
    std::unique_lock waiting(mutex_);
    if (ended_.wait_for(waiting, limit_, [this] { return over_; })) return;
    const Seconds seconds(static_cast<double>(limit_.count()) * 1e-3);
    fmt::print(stderr, "pipesim: {}; this process hangs since, and is ended after {}\n", reason,
               pretty(seconds));
    std::fflush(stderr);
    _exit(3);
  });
}

}  // namespace pipesim
