#include "executor/backend/plugins.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <cstdlib>
#include <filesystem>
#include <sstream>
#include <vector>

#include "sim/base/errors.h"

namespace pipesim {
namespace {

std::vector<std::string> plugin_folders() {
  std::vector<std::string> folders;
  if (const char* path = std::getenv("PIPESIM_PLUGIN_PATH")) {
    std::istringstream words(path);
    for (std::string folder; std::getline(words, folder, ':');) {
      if (!folder.empty()) folders.push_back(folder);
    }
  }
  std::error_code error;
  const auto program = std::filesystem::read_symlink("/proc/self/exe", error);
  if (error) return folders;
  const std::filesystem::path folder = program.parent_path(), above = folder.parent_path();
  folders.push_back(folder);
  // The program is installed in bin/ or libexec/pipesim/, and plugins in lib/pipesim/.
  const std::filesystem::path prefix = above.filename() == "libexec" ? above.parent_path() : above;
  folders.push_back(prefix / "lib" / "pipesim");
  return folders;
}

std::string path_of(const Plugin& plugin) {
  const std::vector<std::string> folders = plugin_folders();
  for (const std::string& folder : folders) {
    std::string path = folder + "/" + plugin.file;
    if (std::filesystem::exists(path)) return path;
  }
  throw DeviceError(
      fmt::format("{} is not in {}; it is built with pipesim {}, and PIPESIM_PLUGIN_PATH may name its folder",
                  plugin.file, fmt::join(folders, " or "), plugin.built));
}

}  // namespace

void* load_plugin(const Plugin& plugin) {
  const std::string path = path_of(plugin);
  void* library = dlopen(path.c_str(), RTLD_NOW | (plugin.global ? RTLD_GLOBAL : RTLD_LOCAL));
  if (library == nullptr)
    throw DeviceError(fmt::format("can't load {}; {} {}", path, plugin.needed, dlerror()));
  void* entry = dlsym(library, plugin.entry);
  if (entry == nullptr) throw DeviceError(fmt::format("{} belongs to another version of pipesim", path));
  return entry;
}

}  // namespace pipesim
