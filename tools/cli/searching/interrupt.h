#pragma once

#include <csignal>

#include <array>

#include "tools/cli/base/streams.h"

namespace pipesim {

/// While an Interrupt exists, the first SIGINT (Ctrl-C) and the first SIGTERM are only noted, so that long
/// work can end with its results so far. A second signal of the same kind ends the program at once. A signal
/// that the process was started to ignore, as in a shell's background jobs, stays ignored. Only one Interrupt
/// may exist at a time. Where a caller runs the command, signals are the caller's, which says when to stop.
class Interrupt {
 public:
  explicit Interrupt(const Caller* caller = nullptr);
  ~Interrupt();
  Interrupt(const Interrupt&) = delete;
  Interrupt& operator=(const Interrupt&) = delete;

  /// From any thread.
  [[nodiscard]] bool requested() const;

 private:
  const Caller* caller_;
  static constexpr std::array kSignals{SIGINT, SIGTERM};
  std::array<struct sigaction, kSignals.size()> before_{};
};

}  // namespace pipesim
