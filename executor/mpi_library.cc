#include "executor/mpi_library.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <cstdlib>
#include <filesystem>
#include <sstream>
#include <string>
#include <vector>

#include "sim/base/errors.h"

namespace pipesim {
namespace {

constexpr const char* kLibrary = "libpipesim_mpi.so";

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
  if (!error) folders.push_back(program.parent_path());
  return folders;
}

std::string path_of_library() {
  const std::vector<std::string> folders = plugin_folders();
  for (const std::string& folder : folders) {
    const std::string path = folder + "/" + kLibrary;
    if (std::filesystem::exists(path)) return path;
  }
  throw DeviceError(
      fmt::format("{} is not in {}; it is built with pipesim where MPI is installed (Debian packages "
                  "libopenmpi-dev and openmpi-bin), and PIPESIM_PLUGIN_PATH may name its folder",
                  kLibrary, fmt::join(folders, " or ")));
}

}  // namespace

const MpiFunctions& load_mpi_library() {
  const std::string path = path_of_library();
  // Open MPI's own plugins look up symbols of MPI in the whole program.
  void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_GLOBAL);
  if (library == nullptr)
    throw DeviceError(
        fmt::format("can't load {}; is MPI installed (Debian package openmpi-bin)? {}", path, dlerror()));
  using Entry = const MpiFunctions* (*)();
  const auto entry = reinterpret_cast<Entry>(dlsym(library, "pipesim_mpi_functions"));
  const MpiFunctions* functions = entry == nullptr ? nullptr : entry();
  if (functions == nullptr || functions->version != MpiFunctions::kVersion) {
    throw DeviceError(fmt::format("{} belongs to another version of pipesim", path));
  }
  return *functions;
}

}  // namespace pipesim
