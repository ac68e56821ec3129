#include "python/module/background_call.h"

#include <fmt/format.h>

#include <chrono>
#include <limits>
#include <thread>
#include <utility>

#include "python/module/interpreter_lock.h"
#include "sim/base/deadline.h"

namespace pipesim {
namespace {

namespace py = pybind11;

// Reports running work to Python, and learns from Python whether the work is to end.
class Listener {
 public:
  Listener(std::string name, py::object progress)
      : name_(std::move(name)), progress_(std::move(progress)), began_(Clock::now()), told_(began_) {}

  // Whether the work is to end.
  bool hears(const std::optional<Progress>& now) {
    const Locked locked;
    try {
      if (PyErr_CheckSignals() != 0) throw py::error_already_set();
      if (!ends_) tell(now);
    } catch (py::error_already_set& error) {
      again_ = ends_;
      ends_ = true;
      if (!error.matches(PyExc_StopIteration)) raised_.emplace(std::move(error));
    }
    return ends_;
  }
  // Ctrl-C was pressed again: the work goes on alone until it notices.
  [[nodiscard]] bool gives_up() const { return again_; }
  // Raises the stored exception, if there is one. The caller must hold the interpreter's lock.
  void raise() {
    if (raised_) throw std::move(*raised_);
  }

 private:
  using Clock = std::chrono::steady_clock;
  // Work that reports no progress shows at least that it runs.
  void tell(const std::optional<Progress>& now) {
    constexpr std::chrono::milliseconds kSilence{200};
    if (progress_.is_none() || (!now && Clock::now() < told_ + kSilence)) return;
    told_ = Clock::now();
    if (now) {
      progress_(utf8(now->text), now->share, now->best_time_s);
    } else {
      const std::chrono::duration<double> running = told_ - began_;
      progress_(utf8(fmt::format("{}: {:.1f} s", name_, running.count())), py::none(), py::none());
    }
  }

  std::string name_;
  py::object progress_;
  Clock::time_point began_, told_;
  bool ends_ = false, again_ = false;
  std::optional<py::error_already_set> raised_;
};

}  // namespace

py::str utf8(std::string_view text) {
  return py::reinterpret_steal<py::str>(
      PyUnicode_DecodeUTF8(text.data(), static_cast<Py_ssize_t>(text.size()), "replace"));
}

void BackgroundCall::run(const std::shared_ptr<BackgroundCall>& call, const std::string& name,
                         const py::object& progress) {
  std::thread([call] { call->work_to_end(); }).detach();  // it keeps the call alive
  Listener listener(name, progress);
  {
    const Unlocked unlocked;
    std::optional<Progress> now;
    while (!call->ended(now)) {
      if (interpreter_ends()) {  // this thread never returns, see Unlocked
        call->stop_and_wait();
        break;
      }
      if (listener.hears(now)) call->stop_ = true;
      if (listener.gives_up()) break;
    }
  }
  listener.raise();
  if (call->error_) std::rethrow_exception(call->error_);
}

void BackgroundCall::report(const Progress& progress) {
  const std::lock_guard lock(mutex_);
  progress_ = progress;
}

// Work that does not ask whether to stop asks its thread's deadline.
void BackgroundCall::work_to_end() {
  const Deadline until(std::numeric_limits<double>::infinity(), {}, [this] { return stop_requested(); });
  try {
    const KeepTo keep(until);
    work();
  } catch (...) {
    error_ = std::current_exception();
  }
  const std::lock_guard lock(mutex_);
  done_ = true;
  ended_.notify_all();
}

// Waits a moment and returns whether the work has ended. If not, `progress` receives what was reported.
bool BackgroundCall::ended(std::optional<Progress>& progress) {
  constexpr std::chrono::milliseconds kBetween{20};
  std::unique_lock lock(mutex_);
  if (ended_.wait_for(lock, kBetween, [this] { return done_; })) return true;
  progress = std::exchange(progress_, {});
  return false;
}

void BackgroundCall::stop_and_wait() {
  stop_ = true;
  std::unique_lock lock(mutex_);
  ended_.wait(lock, [this] { return done_; });
}

}  // namespace pipesim
