#include "tools/cli/python/command_call.h"

#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <sstream>
#include <utility>

#include "python/module/background_call.h"
#include "sim/base/deadline.h"
#include "tools/cli/python/json_to_python.h"
#include "tools/cli/run_pipesim.h"
#include "tools/cli/searching/search_watch.h"

namespace pipesim {
namespace {

namespace py = pybind11;

// A command that runs, and what comes of it.
class CommandCall final : public BackgroundCall, public Caller {
 public:
  CommandCall(const Command& command, std::vector<std::string> words)
      : command_(command), words_(std::move(words)) {}

  void take_document(const nlohmann::ordered_json& document) override { document_ = document; }
  void take_plan(std::string plan_file) override { plan_ = std::move(plan_file); }
  void take_progress(const Progress& progress) override { report(progress); }
  [[nodiscard]] bool stop_requested() const override { return BackgroundCall::stop_requested(); }

  // Returns the result; the command must have ended.
  [[nodiscard]] py::dict result() const {
    py::dict result;
    result["status"] = status_;
    result["document"] = document_ ? to_python(*document_) : py::none();
    result["plan"] = plan_ ? py::object(utf8(*plan_)) : py::none();
    result["stopped"] = stop_requested();
    result["messages"] = utf8(err_.str());
    return result;
  }

 private:
  void work() override {
    Streams streams{in_, out_, err_, this};
    try {
      status_ = run_command(command_, words_, streams);
    } catch (const OutOfTime&) {
      status_ = kInterruptedStatus;
    }
  }

  const Command& command_;
  std::vector<std::string> words_;
  std::istringstream in_;
  std::ostringstream out_, err_;
  int status_ = 0;
  std::optional<nlohmann::ordered_json> document_;
  std::optional<std::string> plan_;
};

}  // namespace

py::dict call_command(const std::string& name, const std::vector<std::string>& words,
                      const py::object& progress) {
  const auto call = std::make_shared<CommandCall>(command_named(name), words);
  BackgroundCall::run(call, name, progress);
  return call->result();
}

}  // namespace pipesim
