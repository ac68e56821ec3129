#include "python/module/interpreter_lock.h"

#include <unistd.h>

#include <atomic>
#include <chrono>
#include <thread>

namespace pipesim {
namespace {

std::atomic<std::thread::id> ending{};  // the thread that shuts the interpreter down
std::atomic<int> waiting{0};  // threads that want the lock, and did not see that the interpreter ends

// Calls back to take the lock, unless the interpreter ends.
template <class Take>
auto take_lock(const Take& take) {
  ++waiting;
  if (interpreter_ends()) {
    --waiting;
    for (;;) pause();
  }
  auto taken = take();
  --waiting;
  return taken;
}

}  // namespace

Unlocked::~Unlocked() {
  take_lock([&] {
    PyEval_RestoreThread(state_);
    return true;
  });
}

Locked::Locked() : state_(take_lock([] { return PyGILState_Ensure(); })) {}

bool interpreter_ends() {
  const std::thread::id ends = ending;
  return ends != std::thread::id() && ends != std::this_thread::get_id();
}

void keep_threads_from_the_end() {
  pybind11::module_::import("atexit").attr("register")(pybind11::cpp_function([] {
    constexpr std::chrono::milliseconds kBetween{1};
    ending = std::this_thread::get_id();
    PyThreadState* const state = PyEval_SaveThread();
    while (waiting > 0) std::this_thread::sleep_for(kBetween);
    PyEval_RestoreThread(state);
  }));
}

}  // namespace pipesim
