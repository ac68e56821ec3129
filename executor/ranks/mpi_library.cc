#include "executor/ranks/mpi_library.h"

#include "executor/backend/plugins.h"
#include "sim/base/errors.h"

namespace pipesim {

const MpiFunctions& load_mpi_library() {
  // Open MPI's own plugins look up symbols of MPI in the whole program.
  constexpr Plugin mpi{"libpipesim_mpi.so", "pipesim_mpi_functions",
                       "where MPI is installed (Debian packages libopenmpi-dev and openmpi-bin)",
                       "is MPI installed (Debian package openmpi-bin)?", true};
  using Entry = const MpiFunctions* (*)();
  const auto entry = reinterpret_cast<Entry>(load_plugin(mpi));
  const MpiFunctions* functions = entry();
  if (functions == nullptr || functions->version != MpiFunctions::kVersion)
    throw DeviceError("libpipesim_mpi.so belongs to another version of pipesim");
  return *functions;
}

}  // namespace pipesim
