#pragma once

#include "executor/mpi_functions.h"

namespace pipesim {

/// Loads libpipesim_mpi.so, which stays loaded. DeviceError that says what is missing and how to get it.
const MpiFunctions& load_mpi_library();

}  // namespace pipesim
