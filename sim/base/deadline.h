#pragma once

#include <exception>
#include <functional>
#include <limits>

namespace pipesim {

/// Thrown when work is stopped before its end, see Deadline. The object that throws it stays usable, as if
/// the unfinished work had never begun. It is not an InputError, because the input is not at fault.
class OutOfTime : public std::exception {
 public:
  [[nodiscard]] const char* what() const noexcept override { return "out of time"; }
};

/// The moment at which work has to stop: a time, a request by somebody else, or whichever comes first. A
/// Deadline with neither never passes. Several threads may read one Deadline.
class Deadline {
 public:
  /// Seconds since some fixed moment. Never decreases. Called by several threads.
  using WallClock = std::function<double()>;
  using StopRequested = std::function<bool()>;

  Deadline() = default;
  /// Passes `seconds` from now; infinity means no time limit. The default clock is the machine's steady
  /// clock.
  explicit Deadline(double seconds, WallClock clock = {}, StopRequested stop_requested = {});

  /// A deadline that passes `seconds` from now or when this one passes, whichever comes first.
  [[nodiscard]] Deadline within(double seconds) const;
  /// The same time limit, with this function as the request to stop. An empty function means that nobody can
  /// request it.
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

/// While a KeepTo exists, this thread's work obeys its deadline and no other; nullptr means no deadline. The
/// deadline must outlive the KeepTo. It replaces a deadline argument of every function that can take long,
/// like the cancel scopes of structured concurrency. A thread that works on behalf of this one needs its own
/// KeepTo(deadline_kept()).
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

/// The deadline that this thread obeys; nullptr when there is none.
[[nodiscard]] const Deadline* deadline_kept();
/// Whether this thread's deadline has passed. Reads the clock, which takes some ten nanoseconds.
[[nodiscard]] bool is_late();
/// Throws OutOfTime if this thread's deadline has passed. Long computations call it now and then.
void stop_if_late();

}  // namespace pipesim
