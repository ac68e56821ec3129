#include "tools/interop/reading/read_run.h"

#include <fmt/format.h>

#include "sim/base/errors.h"
#include "sim/base/files.h"
#include "tools/interop/deepspeed/deepspeed_config.h"
#include "tools/interop/megatron/megatron_run.h"
#include "tools/interop/megatron_bridge/bridge_run.h"
#include "tools/interop/reading/other_tools.h"
#include "tools/interop/torchtitan/torchtitan_run.h"

namespace pipesim {
namespace {

constexpr const char* kReadFiles =
    "allowed: a run of Megatron-LM, Megatron-Bridge, torchtitan or DeepSpeed, as a script that starts it or "
    "its configuration";

bool is_configuration(const std::string& file) {
  return file.ends_with(".yaml") || file.ends_with(".yml") || file.ends_with(".py") ||
         file.ends_with(".json");
}

// Refuses files that no reader takes, and says what they are.
void refuse_others(std::string_view text, const std::string& file) {
  if (!is_configuration(file)) return;
  if (const std::string tool = tool_of_configuration(text, file); !tool.empty())
    throw InputError(fmt::format("{}: is of {}, which is not read, {}", file, tool, kReadFiles));
  if (file.ends_with(".py"))
    throw InputError(file +
                     ": is a program of Python, allowed: the script that starts it, or a configuration of "
                     "torchtitan");
  if (is_deepspeed_config(text))
    throw InputError(file +
                     ": is a configuration of DeepSpeed, which has no sizes of a model, allowed: the script "
                     "that starts the run with --deepspeed_config " +
                     file.substr(file.rfind('/') + 1));
  if (!file.ends_with(".json")) return;
  throw InputError(file + ": is JSON, allowed: arguments of Megatron-LM, or a script that has them");
}

FrameworkRun read_any(const std::string& path, const std::string& text, const std::string& file,
                      const ShellMachine& machine) {
  if (!is_bridge_file(file, text) && is_torchtitan_file(path, text))
    return torchtitan_run(load_torchtitan(path, machine), machine.devices);
  if (is_bridge_file(file, text)) {
    const std::string function = path.size() > file.size() ? path.substr(file.size() + 1) : "";
    return bridge_run(text, file, function, machine.devices);
  }
  refuse_others(text, file);
  try {
    return megatron_run(MegatronFile::parse(text, file, machine), machine.devices);
  } catch (const InputError&) {
    if (is_configuration(file)) throw;
    // The script of an export, for example, gets the program as an argument.
    const bool given_program =
        text.find("--deepspeed_config") != std::string::npos && text.find(".py") == std::string::npos;
    if (given_program)
      throw InputError(
          file +
          ": starts a program with DeepSpeed that it does not name, allowed: a script that calls it "
          "with one, as sh " +
          file.substr(file.rfind('/') + 1) + " pretrain_gpt.py --num-layers 32 …");
    const std::string tool = tool_of_script(text);
    if (tool.empty()) throw;
    throw InputError(fmt::format("{}: starts {}, which is not read, {}", file, tool, kReadFiles));
  }
}

}  // namespace

FrameworkRun read_framework_run(const std::string& path, std::int64_t devices, std::int64_t of_a_host) {
  const std::string file = file_of_path(path), text = read_file(file);
  try {
    return read_any(path, text, file, {devices, of_a_host});
  } catch (const InputError& error) {
    // Errors of the zoo about a model name no file, so it is added.
    const std::string message = error.what();
    if (!message.starts_with("model \"")) throw;
    throw InputError(file + ": " + message);
  }
}

}  // namespace pipesim
