#pragma once

#include <pybind11/pybind11.h>

namespace pipesim {

/// Work without the interpreter's lock, which the thread takes again at the end.
///
/// A thread that waits for the lock of an interpreter that shuts down is ended by Python, in the middle of
/// C++ functions that can't end so, and the process aborts. Threads stop before they wait, once Python
/// runs the functions of atexit, and those wait until no thread waits for the lock any more.
class Unlocked {
 public:
  Unlocked() : state_(PyEval_SaveThread()) {}
  /// Never returns where the interpreter shuts down.
  ~Unlocked();
  Unlocked(const Unlocked&) = delete;
  Unlocked& operator=(const Unlocked&) = delete;

 private:
  PyThreadState* state_;
};

/// The interpreter's lock for a moment, within Unlocked.
class Locked {
 public:
  /// Never returns where the interpreter shuts down.
  Locked();
  ~Locked() { PyGILState_Release(state_); }
  Locked(const Locked&) = delete;
  Locked& operator=(const Locked&) = delete;

 private:
  PyGILState_STATE state_;
};

/// Whether another thread shuts the interpreter down, so that this one never returns if it wants the lock.
bool interpreter_ends();

/// Registers the function of atexit that these need.
void keep_threads_from_the_end();

}  // namespace pipesim
