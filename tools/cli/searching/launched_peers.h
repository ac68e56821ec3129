#pragma once

#include <memory>

#include "search/peer_processes.h"
#include "tools/cli/base/command.h"

namespace pipesim {

/// The processes that mpirun has started with this command line; nullptr where this is the only one.
/// DeviceError where MPI is missing. As the functions of execution_commands.h: the program pipesim starts
/// pipesim-execution, which knows MPI.
std::unique_ptr<PeerProcesses> peers_of_launcher(const Arguments& arguments, Streams& streams);

}  // namespace pipesim
