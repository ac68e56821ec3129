#pragma once

#include <string>
#include <vector>

#include "executor/ranks/rendezvous.h"
#include "executor/ranks/tcp_sockets.h"

namespace pipesim {

struct MetRank {
  FramedConnection connection;
  std::string host;
};

/// Called by rank 0: listens until all other ranks have come, tells each that it was accepted, and then that
/// all have met. The result has one entry per rank; that of rank 0 has no connection. A process that connects
/// but is no rank of this run is sent away without disturbing the others. Errors as Rendezvous.
std::vector<MetRank> await_ranks(const RendezvousPlace& place, const RendezvousOptions& options);

/// Called by the others. Returns rank 0 after all have met. It tries until the time limit, and then waits as
/// long again for the others. DeviceError also when rank 0 refuses this rank: `rank 2 has come twice, from
/// hosts a and b`.
MetRank reach_first_rank(const RendezvousPlace& place, const RendezvousOptions& options);

}  // namespace pipesim
