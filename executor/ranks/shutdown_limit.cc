#include "executor/ranks/shutdown_limit.h"

#include <fmt/format.h>
#include <poll.h>
#include <unistd.h>

#include <cstdio>

#include "sim/base/units.h"

namespace pipesim {

ShutdownLimit::~ShutdownLimit() {
  {
    const std::lock_guard lock(mutex_);
    over_ = true;
  }
  ended_.notify_all();
  if (thread_.joinable()) thread_.join();
}

void ShutdownLimit::expect_end(const std::string& reason) {
  const std::lock_guard lock(mutex_);
  if (over_ || thread_.joinable()) return;
  const Seconds seconds(static_cast<double>(limit_.count()) * 1e-3);
  const std::string message =
      fmt::format("pipesim: {}; this process hangs since, and is ended after {}\n", reason, pretty(seconds));
  thread_ = std::thread([this, message] {
    std::unique_lock waiting(mutex_);
    if (ended_.wait_for(waiting, limit_, [this] { return over_; })) return;
    // Neither throws nor waits long, whatever has become of stderr.
    pollfd out{STDERR_FILENO, POLLOUT, 0};
    if (poll(&out, 1, 1000) == 1) dprintf(STDERR_FILENO, "%s", message.c_str());
    _exit(3);
  });
}

}  // namespace pipesim
