#pragma once

#include <string>

namespace pipesim {

/// A library of pipesim's own that is loaded when it is needed, so that the program starts where what it is
/// linked to is not installed.
struct Plugin {
  const char* file;     ///< "libpipesim_mpi.so"
  const char* entry;    ///< its only symbol, a function
  const char* built;    ///< where it is built: "where MPI is installed (Debian package …)"
  const char* needed;   ///< what to look for when it can't be loaded
  bool global = false;  ///< its own libraries look up symbols in the whole program
};

/// The entry of a plugin, which stays loaded. It is looked for in the folders of PIPESIM_PLUGIN_PATH
/// (separated by colons), beside the program, and in lib/pipesim where bin/ or libexec/pipesim/ holds the
/// program. DeviceError that says what is missing and how to get it.
void* load_plugin(const Plugin& plugin);

}  // namespace pipesim
