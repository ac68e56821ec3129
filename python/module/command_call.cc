#include "python/module/command_call.h"

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <exception>
#include <limits>
#include <mutex>
#include <nlohmann/json.hpp>
#include <optional>
#include <sstream>
#include <thread>
#include <utility>

#include "python/module/json_to_python.h"
#include "sim/base/deadline.h"
#include "tools/run_pipesim.h"

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

  // Returns when the command has ended. `meanwhile` is called now and then; true asks the command to end.
  template <class Meanwhile>
  void run(Meanwhile meanwhile) {
    std::thread worker([this] { work(); });
    for (;;) {
      constexpr std::chrono::milliseconds kBetween{20};
      std::optional<Progress> progress;
      {
        std::unique_lock lock(mutex_);
        if (ended_.wait_for(lock, kBetween, [this] { return done_; })) break;
        progress = std::exchange(progress_, {});
      }
      if (meanwhile(progress)) stop_ = true;
    }
    worker.join();
  }

  // After run().
  [[nodiscard]] py::dict result() const {
    if (error_) std::rethrow_exception(error_);
    py::dict result;
    result["status"] = status_;
    result["document"] = document_ ? to_python(*document_) : py::none();
    result["plan"] = plan_ ? py::object(py::str(*plan_)) : py::none();
    result["stopped"] = stop_.load();
    result["messages"] = err_.str();
    result["text"] = out_.str();
    return result;
  }

 private:
  void work() {
    // Work that looks at no caller looks at its thread's deadline.
    const Deadline until(std::numeric_limits<double>::infinity(), {}, [this] { return stop_.load(); });
    try {
      const KeepTo keep(until);
      Streams streams{in_, out_, err_, this};
      status_ = run_command(command_, words_, streams);
    } catch (const OutOfTime&) {
      constexpr int kInterrupted = 130;
      status_ = kInterrupted;
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

}  // namespace

py::dict call_command(const std::string& name, const std::vector<std::string>& words,
                      const py::object& progress) {
  CommandCall call(command_named(name), words);
  std::optional<py::error_already_set> raised;
  const auto meanwhile = [&](const std::optional<Progress>& now) {
    if (raised) return true;
    const py::gil_scoped_acquire locked;
    try {
      if (PyErr_CheckSignals() != 0) throw py::error_already_set();
      if (!now || progress.is_none()) return false;
      progress(now->text, now->share, now->best_time_s);
    } catch (py::error_already_set& error) {
      if (!error.matches(PyExc_StopIteration)) raised.emplace(std::move(error));
      return true;
    }
    return false;
  };
  {
    const py::gil_scoped_release unlocked;
    call.run(meanwhile);
  }
  if (raised) throw std::move(*raised);
  return call.result();
}

}  // namespace pipesim
