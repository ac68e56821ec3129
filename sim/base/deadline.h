#pragma once

#include <exception>
#include <functional>
#include <limits>

namespace pipesim {

/// Work was stopped before its end: see Deadline. What throws it stays usable, and what it had begun counts
/// as never done. No InputError: nothing is wrong.
class OutOfTime : public std::exception {
 public:
  [[nodiscard]] const char* what() const noexcept override { return "out of time"; }
};

/// When work has to end: at a time, or as soon as somebody asks for it. One without both never passes. Many
/// threads may look at one.
class Deadline {
 public:
  /// Seconds since any moment, never fewer than before. Called by many threads.
  using WallClock = std::function<double()>;
  using StopRequested = std::function<bool()>;

  Deadline() = default;
  /// `seconds` from now on; infinity: no limit of time. The default clock is the machine's steady one.
  explicit Deadline(double seconds, WallClock clock = {}, StopRequested stop_requested = {});

  /// One that passes so many seconds from now, or when this one does.
  [[nodiscard]] Deadline within(double seconds) const;
  /// The same time, but others may ask for an end; nobody, when there is no function.
  [[nodiscard]] Deadline with_stop(StopRequested stop_requested) const;

  [[nodiscard]] bool limited() const { return end_ < std::numeric_limits<double>::infinity(); }
  [[nodiscard]] double left() const;  ///< seconds, at least 0; infinity without a limit
  [[nodiscard]] bool passed() const;

 private:
  [[nodiscard]] double now() const;

  WallClock clock_;
  StopRequested stop_requested_;
  double end_ = std::numeric_limits<double>::infinity();
};

/// While one exists, all that this thread does keeps to the deadline, which must outlive it, and to no other;
/// nullptr: to none. It stands for an argument of every function that can take long, as the cancel scopes of
/// structured concurrency do. Threads that work for this one are told by KeepTo(deadline_kept()).
class KeepTo {
 public:
  explicit KeepTo(const Deadline* deadline);
  explicit KeepTo(const Deadline& deadline) : KeepTo(&deadline) {}
  ~KeepTo();
  KeepTo(const KeepTo&) = delete;
  KeepTo& operator=(const KeepTo&) = delete;

 private:
  const Deadline* before_;
};

/// That of this thread; nullptr: none.
[[nodiscard]] const Deadline* deadline_kept();
/// It has passed. Costs a look at the clock: some ten nanoseconds.
[[nodiscard]] bool is_late();
/// Asked now and then by what can take long. OutOfTime when it has.
void stop_if_late();

}  // namespace pipesim
