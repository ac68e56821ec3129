#pragma once

#include <string>

namespace pipesim {

/// A library of pipesim that is loaded on demand, so that the program also starts where the libraries behind
/// it are not installed.
struct Plugin {
  const char* file;     ///< "libpipesim_mpi.so"
  const char* entry;    ///< its only symbol, a function
  const char* built;    ///< where it is built: "where MPI is installed (Debian package …)"
  const char* needed;   ///< what to look for when it can't be loaded
  bool global = false;  ///< its own libraries look up symbols in the whole program
};

/// Returns the entry of a plugin, which stays loaded. Looks in the folders of PIPESIM_PLUGIN_PATH (separated
/// by colons), beside the program, and in lib/pipesim if the program is in bin/ or libexec/pipesim/.
/// DeviceError that says what is missing and how to get it.
void* load_plugin(const Plugin& plugin);

}  // namespace pipesim
