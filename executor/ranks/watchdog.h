#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "executor/ranks/peer_sockets.h"

namespace pipesim {

/// Notices the death of other ranks by itself, whichever library moves the data. Every two ranks hold a
/// connection over which they send signs of life, their activity, and a goodbye. A rank that closes without a
/// goodbye, or is silent for 10 s, has failed. This rank has failed when it is told to stop (SIGTERM, which
/// mpirun sends to all when one dies).
///
/// Then `on_failure` is called, once, from the watchdog's thread. After that the others are told that this
/// rank has stopped. A process that still exists 5 s later (1/2 s after SIGTERM) hangs; the watchdog prints
/// the reason and ends it with exit status 3.
class Watchdog {
 public:
  struct Duties {
    int rank;
    std::function<std::string(int rank)> name_of;  ///< "rank 2 (gpu2 on host a)"
    std::function<void(const std::string& reason)> on_failure;
  };

  /// A call of all ranks. DeviceError when they can't be connected.
  Watchdog(Duties duties, const GatherText& gather);
  /// Says goodbye.
  ~Watchdog();

  /// Cheap; others see it within 50 ms.
  void set_last_task(const std::string& text);
  /// Tells all other ranks to fail for this reason.
  void announce(const std::string& reason);
  /// After a failure: returns when on_failure has been called here and in all ranks that are alive, 2 s later
  /// at the latest. Until then they may still read what this rank was sending.
  void wait_for_stop();

 private:
  using Clock = std::chrono::steady_clock;
  struct Peer {
    Descriptor connection;
    std::string received;  // up to the end of a line
    std::string to_send;
    std::string last_task;
    Clock::time_point heard;
    bool watched = true;
    bool stopped = false;
  };

  void run();
  void wait_for_news();
  void read_from(int rank);
  void understand(int rank, const std::string& line);
  void tell_all(const std::string& line);
  void flush(Peer& peer);
  void tell_news(Clock::time_point now);
  void look_for_silence(Clock::time_point now);
  void look_for_signal(Clock::time_point now);
  void fail(const std::string& reason);
  void lose(int rank, const std::string& how);
  void note_stop();
  void end_process_if_late(Clock::time_point now);

  Duties duties_;
  std::vector<Peer> peers_;
  Clock::time_point told_alive_;
  std::optional<Clock::time_point> signalled_;
  std::optional<Clock::time_point> deadline_;  // until when the process must have ended
  std::string failure_;

  std::mutex mutex_;  // of the following
  std::string task_;
  std::string announced_;
  bool task_changed_ = false;
  bool all_stopped_ = false;
  std::condition_variable stop_;

  std::atomic<bool> leaving_{false};
  std::thread thread_;
};

}  // namespace pipesim
