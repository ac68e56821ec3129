#include "tools/interop/torchtitan/torchtitan_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <utility>

#include "sim/base/errors.h"
#include "sim/base/files.h"
#include "sim/base/suggest.h"
#include "tools/interop/python/python_settings.h"
#include "tools/interop/settings/toml_settings.h"
#include "tools/interop/shell/launch_devices.h"
#include "tools/interop/torchtitan/known_models.h"
#include "tools/interop/torchtitan/torchtitan_settings.h"

namespace pipesim {
namespace {

namespace fs = std::filesystem;
constexpr const char* kSchedule = "parallelism.pipeline_parallel_schedule_csv";
constexpr std::string_view kPython = ".py:";

std::string function_of_path(const std::string& path) {
  const std::size_t at = path.rfind(kPython);
  return at == std::string::npos ? "" : path.substr(at + kPython.size());
}

// Looks for a file in the folder of another one, and in those above. A leading variable that nothing sets
// stands for a folder.
std::optional<std::string> path_beside(const std::string& file, std::string name) {
  if (name.starts_with('$') && name.find('/') != std::string::npos) name.erase(0, name.find('/') + 1);
  if (name.empty() || name.find('$') != std::string::npos) return std::nullopt;
  std::error_code error;
  fs::path folder = fs::absolute(file, error).parent_path();
  for (int above = 0; above < 8; ++above, folder = folder.parent_path()) {
    const fs::path path = folder / name;
    if (fs::is_regular_file(path, error))
      return above == 0 && fs::path(name).is_relative() ? (fs::path(file).parent_path() / name).string()
                                                        : path.string();
    if (folder == folder.parent_path()) break;
  }
  return std::nullopt;
}

// The component of "torchtitan.models.llama3.get_train_spec", or of a path, that names models.
std::string module_within(std::string_view name) {
  for (std::size_t at = 0; at < name.size();) {
    const std::size_t end = std::min(name.find_first_of("./", at), name.size());
    if (is_torchtitan_module(name.substr(at, end - at))) return std::string(name.substr(at, end - at));
    at = end + 1;
  }
  return "";
}

void read_schedule(TorchtitanFile& file, const std::string& name) {
  if (name.empty()) return;
  const auto path = path_beside(file.settings.source(), name);
  if (!path) file.settings.fail(kSchedule, fmt::format("needs {}, which is not there", name));
  file.schedule = read_file(*path);
}

// --- configurations in Python

// Returns the function that is asked for, or the only one.
std::string chosen_function(PythonModule& module, const std::string& asked) {
  std::vector<std::string> functions;
  for (const std::string& name : module.functions()) {
    if (!name.starts_with('_')) functions.push_back(name);
  }
  if (!asked.empty()) {
    if (std::ranges::find(functions, asked) != functions.end()) return asked;
    throw InputError(fmt::format("{}: found no function \"{}\" without arguments{}, allowed: {}",
                                 module.source(), asked, did_you_mean(asked, functions),
                                 list_names(functions)));
  }
  if (functions.size() == 1) return functions.front();
  if (functions.empty())
    throw InputError(module.source() + ": has no function that returns a configuration of torchtitan");
  throw InputError(fmt::format("{}: has {} configurations, allowed: one of them, as {}:{}: {}",
                               module.source(), functions.size(), module.source(), functions.front(),
                               list_names(functions)));
}

TorchtitanFile file_of_python(std::string_view text, const std::string& source, const std::string& function) {
  PythonModule module(text, source);
  const std::string name = chosen_function(module, function);
  const PythonReference config = module.call(name);
  if (config->kind != PythonValue::Kind::Object)
    throw InputError(fmt::format("{}: {}() returns no configuration of torchtitan", source, name));
  TorchtitanFile file{.settings = Settings(source), .main = true};
  file.notes = module.notes();
  const Settings own = python_settings(config, source);
  const std::string& made_by = config->text;
  if (!made_by.ends_with("Config")) {
    const std::string base = made_by.substr(made_by.rfind('.') + 1);
    const auto known = torchtitan_configuration(base);
    if (!known)
      throw InputError(fmt::format("{}:{}: begins with {}, which is in another file, allowed: {}", source,
                                   config->line, made_by, list_names(torchtitan_configurations())));
    // A model of its own has none of the base's converters.
    for (const Setting& setting : known->all()) {
      if (own.find("model_spec") == nullptr || !setting.path.starts_with("model_spec."))
        file.settings.set(setting);
    }
  }
  for (const Setting& setting : own.all()) file.settings.set(setting);
  if (const Setting* spec = own.find("model_spec");
      spec != nullptr && spec->text.ends_with("model_registry")) {
    std::string models = module_within(spec->text);
    if (models.empty()) models = module_within(fs::absolute(source).parent_path().string());
    for (std::size_t end = name.size(); models.empty() && end != std::string::npos && end > 0;
         end = name.rfind('_', end - 1)) {
      if (is_torchtitan_module(name.substr(0, end))) models = name.substr(0, end);
    }
    using Kind = Setting::Kind;
    if (!models.empty())
      file.settings.set({.path = "model.name", .place = spec->place, .kind = Kind::Text, .text = models});
    for (const char* path : {"model_spec.0", "model_spec.flavor"}) {
      if (const Setting* flavor = own.find(path))
        file.settings.set(
            {.path = "model.flavor", .place = spec->place, .kind = flavor->kind, .text = flavor->text});
    }
  }
  if (const PythonReference parallelism = config->field("parallelism")) {
    if (const PythonReference csv = parallelism->field("pipeline_parallel_schedule_csv"))
      read_schedule(file, text_within(csv));
  }
  return file;
}

// --- TOML

// Reads the module that gives the model: what it registers by the model's name.
void read_custom_import(TorchtitanFile& file) {
  Settings& settings = file.settings;
  const std::string import = settings.text("experimental.custom_import").value_or("");
  const std::string name = settings.text("model.name").value_or("");
  if (import.empty() || is_torchtitan_module(name)) return;
  const std::string module_file = import.substr(import.rfind('.') + 1) + ".py";
  const auto path = path_beside(settings.source(), module_file);
  if (!path)
    settings.fail("experimental.custom_import",
                  fmt::format("needs {} for the model \"{}\", which is not there", module_file, name));
  const PythonModule module(read_file(*path), *path);
  for (const PythonReference& call : module.calls()) {
    const PythonReference registered = call->field("0"), spec = call->field("1");
    const bool of_model =
        call->text.ends_with("register_train_spec") && registered && spec && registered->text == name;
    const PythonReference models = of_model ? spec->field("model_args") : nullptr;
    const PythonReference model =
        models ? models->field(settings.text("model.flavor").value_or("")) : nullptr;
    constexpr std::string_view kArguments = ".model_args.";
    const std::size_t at = model ? model->origin.find(kArguments) : std::string::npos;
    if (at == std::string::npos) continue;
    using Kind = Setting::Kind;
    const std::string place = fmt::format("{}:{}", *path, call->line);
    const Settings arguments = python_settings(model, *path);
    for (Setting setting : arguments.all()) {
      if (setting.path == "class") continue;
      setting.path = "model.arguments." + setting.path;
      settings.set(std::move(setting));
    }
    settings.set(
        {.path = "model.name", .place = place, .kind = Kind::Text, .text = module_within(model->origin)});
    settings.set({.path = "model.flavor",
                  .place = place,
                  .kind = Kind::Text,
                  .text = model->origin.substr(at + kArguments.size())});
    return;
  }
  settings.fail("model.name", fmt::format("{} registers no model \"{}\" by constants", *path, name));
}

TorchtitanFile file_of_toml(std::string_view text, const std::string& source) {
  TorchtitanFile file{.settings = toml_settings(text, source)};
  rename_older_keys(file.settings);
  return file;
}

// --- scripts

bool starts_torchtitan(const std::vector<ShellWord>& command) {
  return std::ranges::any_of(command, [](const ShellWord& word) {
    return word.text == "torchtitan.train" || word.text.ends_with("torchtitan/train.py") ||
           word.text.starts_with("--job.config_file") || word.text.starts_with("--job.config-file");
  });
}

// Reads a value as the command line writes it.
Setting setting_of_word(std::string path, const ShellWord& word, const std::string& value) {
  using Kind = Setting::Kind;
  Setting setting{
      .path = std::move(path), .place = fmt::format("{}:{}", word.file, word.line), .text = value};
  const bool number = !value.empty() && value.find_first_not_of("0123456789.-+eE") == std::string::npos &&
                      value.find_first_of("0123456789") != std::string::npos;
  setting.kind = value.find('$') != std::string::npos   ? Kind::Code
                 : number                               ? Kind::Number
                 : value == "True" || value == "true"   ? Kind::Truth
                 : value == "False" || value == "false" ? Kind::Truth
                 : value == "None"                      ? Kind::None
                                                        : Kind::Text;
  if (setting.kind == Kind::Truth)
    setting.text[0] = static_cast<char>(std::tolower(static_cast<unsigned char>(value[0])));
  return setting;
}

// "--compile.no-enable" is "compile.enable", set to false.
void add_option(const ShellWord& flag, const std::string& written, const std::vector<std::string>& values,
                Settings& to) {
  std::string path = written.substr(2);
  std::ranges::replace(path, '-', '_');
  const std::size_t name = path.rfind('.') + 1;
  if (values.empty()) {
    const bool off = path.substr(name).starts_with("no_");
    if (off) path.erase(name, 3);
    to.set(setting_of_word(path, flag, off ? "false" : "true"));
  } else if (values.size() == 1) {
    to.set(setting_of_word(path, flag, values.front()));
  } else {
    Setting list{
        .path = path, .place = fmt::format("{}:{}", flag.file, flag.line), .kind = Setting::Kind::List};
    for (const std::string& value : values) list.items.push_back(setting_of_word(path, flag, value));
    to.set(std::move(list));
  }
}

Settings options_of(const std::vector<ShellWord>& command, const std::string& source) {
  Settings options(source);
  for (std::size_t i = 0; i < command.size(); ++i) {
    const ShellWord& word = command[i];
    if (word.text.starts_with("activation_checkpoint:")) {
      const bool full = word.text.ends_with(":full"), none = word.text.ends_with(":none");
      options.set({.path = "activation_checkpoint",
                   .place = fmt::format("{}:{}", word.file, word.line),
                   .kind = none ? Setting::Kind::None : Setting::Kind::Object,
                   .text = full ? "FullAC.Config" : "SelectiveAC.Config"});
      continue;
    }
    if (!word.text.starts_with("--")) continue;
    const std::size_t equal = word.text.find('=');
    std::vector<std::string> values;
    if (equal != std::string::npos) values.push_back(word.text.substr(equal + 1));
    while (i + 1 < command.size() && !command[i + 1].text.starts_with("-") && command[i + 1].text != "$@" &&
           !command[i + 1].text.starts_with("activation_checkpoint:"))
      values.push_back(command[++i].text);
    add_option(word, word.text.substr(0, equal), values, options);
  }
  return options;
}

// Reads the file that a command names, with the command's options on top.
TorchtitanFile file_of_command(const std::vector<ShellWord>& command, const std::string& source) {
  const auto program = std::ranges::find_if(command, [](const ShellWord& word) {
    return word.text == "torchtitan.train" || word.text.ends_with("train.py");
  });
  const Settings launch = options_of({command.begin(), program}, source);
  const Settings options = options_of(
      program == command.end() ? command : std::vector<ShellWord>(program + 1, command.end()), source);
  const std::string toml = options.text("job.config_file").value_or("");
  const std::string module = options.text("module").value_or("");
  const std::string named = !toml.empty()    ? toml
                            : module.empty() ? ""
                                             : module.substr(module.rfind('.') + 1) + ".py";
  if (named.empty())
    throw InputError(
        fmt::format("{}:{}: starts torchtitan without --job.config_file, or --module and --config",
                    command.front().file, command.front().line));
  const auto path = path_beside(source, named);
  if (!path) throw InputError(fmt::format("{}: needs {}, which is not there", source, named));
  TorchtitanFile file = !toml.empty()
                            ? file_of_toml(read_file(*path), *path)
                            : file_of_python(read_file(*path), *path, options.text("config").value_or(""));
  for (const Setting& option : options.all()) {
    if (option.path == "job.config_file" || option.path == "module" || option.path == "config") continue;
    file.settings.set(option);
  }
  file.launched = launched_devices([&](std::string_view flag) -> std::optional<std::string> {
    std::string name(flag.substr(2));
    std::ranges::replace(name, '-', '_');
    const Setting* const setting = launch.find(name);
    return setting == nullptr ? std::nullopt : std::optional(setting->text);
  });
  return file;
}

TorchtitanFile file_of_script(std::string_view text, const std::string& source, const ShellMachine& machine) {
  const ShellScript script = read_shell_script(text, source, machine);
  for (const std::vector<ShellWord>& command : script.commands) {
    if (!starts_torchtitan(command)) continue;
    TorchtitanFile file = file_of_command(command, source);
    file.notes.insert(file.notes.begin(), script.notes.begin(), script.notes.end());
    return file;
  }
  throw InputError(source + ": starts no torchtitan");
}

}  // namespace

std::string file_of_path(const std::string& path) {
  const std::size_t at = path.rfind(kPython);
  return at == std::string::npos ? path : path.substr(0, at + kPython.size() - 1);
}

bool is_torchtitan_file(const std::string& path, std::string_view text) {
  const std::string file = file_of_path(path);
  if (file.ends_with(".py"))
    return text.find("torchtitan") != std::string_view::npos ||
           text.find("Trainer.Config") != std::string_view::npos;
  if (file.ends_with(".toml")) return true;
  if (file.ends_with(".yaml") || file.ends_with(".yml") || file.ends_with(".json")) return false;
  const bool tables =
      text.find("[training]\n") != std::string_view::npos &&
      (text.find("[job]\n") != std::string_view::npos || text.find("[model]\n") != std::string_view::npos ||
       text.find("[parallelism]\n") != std::string_view::npos);
  return tables || text.find("torchtitan.train") != std::string_view::npos ||
         text.find("--job.config_file") != std::string_view::npos ||
         text.find("torchtitan/train.py") != std::string_view::npos;
}

TorchtitanFile load_torchtitan(const std::string& path, const ShellMachine& machine) {
  const std::string source = file_of_path(path), text = read_file(source);
  const bool toml = source.ends_with(".toml") || text.find("[training]\n") != std::string::npos;
  TorchtitanFile file = source.ends_with(".py") ? file_of_python(text, source, function_of_path(path))
                        : toml                  ? file_of_toml(text, source)
                                                : file_of_script(text, source, machine);
  if (file.main) return file;
  read_custom_import(file);
  const Setting* const csv = file.settings.find(kSchedule);
  if (csv != nullptr && !csv->text.empty()) {
    const auto beside = path_beside(source, csv->text);
    if (!beside) file.settings.fail(kSchedule, fmt::format("needs {}, which is not there", csv->text));
    file.schedule = read_file(*beside);
  }
  return file;
}

}  // namespace pipesim
