#include "python/module/command_call.h"

#include <fmt/format.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <exception>
#include <limits>
#include <memory>
#include <mutex>
#include <nlohmann/json.hpp>
#include <optional>
#include <sstream>
#include <thread>
#include <utility>

#include "python/module/json_to_python.h"
#include "sim/base/deadline.h"
#include "tools/cli/run_pipesim.h"
#include "tools/cli/searching/search_watch.h"

namespace pipesim {
namespace {

namespace py = pybind11;

// A command that runs on a thread of its own, and what comes of it.
class CommandCall final : public Caller {
 public:
  CommandCall(const Command& command, std::vector<std::string> words)
      : command_(command), words_(std::move(words)) {}

  void take_document(const nlohmann::ordered_json& document) override { document_ = document; }
  void take_plan(std::string plan_file) override { plan_ = std::move(plan_file); }
  void take_progress(const Progress& progress) override {
    const std::lock_guard lock(mutex_);
    progress_ = progress;
  }
  [[nodiscard]] bool stop_requested() const override { return stop_; }

  // Starts the command on a thread that keeps the call alive until the command has ended.
  static void begin(const std::shared_ptr<CommandCall>& call) {
    std::thread([call] { call->work(); }).detach();
  }
  // Waits a moment and returns whether the command has ended. If not, `progress` receives what was reported.
  bool ended(std::optional<Progress>& progress) {
    constexpr std::chrono::milliseconds kBetween{20};
    std::unique_lock lock(mutex_);
    if (ended_.wait_for(lock, kBetween, [this] { return done_; })) return true;
    progress = std::exchange(progress_, {});
    return false;
  }
  void wait() {
    std::unique_lock lock(mutex_);
    ended_.wait(lock, [this] { return done_; });
  }
  void stop() { stop_ = true; }

  // Returns the result; the command must have ended.
  [[nodiscard]] py::dict result() const {
    if (error_) std::rethrow_exception(error_);
    py::dict result;
    result["status"] = status_;
    result["document"] = document_ ? to_python(*document_) : py::none();
    result["plan"] = plan_ ? py::object(utf8(*plan_)) : py::none();
    result["stopped"] = stop_.load();
    result["messages"] = utf8(err_.str());
    return result;
  }

 private:
  void work() {
    // Work that does not ask the caller whether to stop asks its thread's deadline.
    const Deadline until(std::numeric_limits<double>::infinity(), {}, [this] { return stop_.load(); });
    try {
      const KeepTo keep(until);
      Streams streams{in_, out_, err_, this};
      status_ = run_command(command_, words_, streams);
    } catch (const OutOfTime&) {
      status_ = kInterruptedStatus;
    } catch (...) {
      error_ = std::current_exception();
    }
    const std::lock_guard lock(mutex_);
    done_ = true;
    ended_.notify_all();
  }

  const Command& command_;
  std::vector<std::string> words_;
  std::istringstream in_;
  std::ostringstream out_, err_;
  std::atomic<bool> stop_ = false;
  int status_ = 0;
  std::exception_ptr error_;
  std::optional<nlohmann::ordered_json> document_;
  std::optional<std::string> plan_;
  std::mutex mutex_;
  std::condition_variable ended_;
  bool done_ = false;                 // guarded, as is
  std::optional<Progress> progress_;  // the latest that was not told
};

// Returns whether the interpreter is shutting down, when no other thread gets its lock any more.
bool interpreter_ends() {
#if PY_VERSION_HEX >= 0x030D0000
  return Py_IsFinalizing() != 0;
#else
  return _Py_IsFinalizing() != 0;
#endif
}

// Like Python's own threads at that time, this thread never returns.
[[noreturn]] void end_with_interpreter(CommandCall& call) {
  call.stop();
  call.wait();
  for (;;) pause();
}

// Reports a running command to Python, and learns from Python whether the command is to end.
class Listener {
 public:
  Listener(std::string command, py::object progress)
      : command_(std::move(command)), progress_(std::move(progress)), began_(Clock::now()), told_(began_) {}

  // Whether the command is to end.
  bool hears(const std::optional<Progress>& now) {
    const py::gil_scoped_acquire locked;
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
  // Ctrl-C was pressed again: the command goes on alone until it notices.
  [[nodiscard]] bool gives_up() const { return again_; }
  // Raises the stored exception, if there is one. The caller must hold the interpreter's lock.
  void raise() {
    if (raised_) throw std::move(*raised_);
  }

 private:
  using Clock = std::chrono::steady_clock;
  // A command that reports no progress shows at least that it runs.
  void tell(const std::optional<Progress>& now) {
    constexpr std::chrono::milliseconds kSilence{200};
    if (progress_.is_none() || (!now && Clock::now() < told_ + kSilence)) return;
    told_ = Clock::now();
    if (now) {
      progress_(utf8(now->text), now->share, now->best_time_s);
    } else {
      const std::chrono::duration<double> running = told_ - began_;
      progress_(utf8(fmt::format("{}: {:.1f} s", command_, running.count())), py::none(), py::none());
    }
  }

  std::string command_;
  py::object progress_;
  Clock::time_point began_, told_;
  bool ends_ = false, again_ = false;
  std::optional<py::error_already_set> raised_;
};

}  // namespace

py::dict call_command(const std::string& name, const std::vector<std::string>& words,
                      const py::object& progress) {
  const auto call = std::make_shared<CommandCall>(command_named(name), words);
  CommandCall::begin(call);
  Listener listener(name, progress);
  {
    const py::gil_scoped_release unlocked;
    std::optional<Progress> now;
    while (!call->ended(now)) {
      if (interpreter_ends()) end_with_interpreter(*call);
      if (listener.hears(now)) call->stop();
      if (listener.gives_up()) break;
    }
  }
  listener.raise();
  return call->result();
}

}  // namespace pipesim
