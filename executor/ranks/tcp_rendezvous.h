#pragma once

#include "executor/ranks/rendezvous.h"

namespace pipesim {

/// Over TCP connections between rank 0, which listens at `place`, and every other rank. They stay: a rank
/// whose connection ends without a goodbye has died, and rank 0 tells all others. A thread of each rank reads
/// and writes.
std::unique_ptr<Rendezvous> open_tcp_rendezvous(const RendezvousPlace& place,
                                                const RendezvousOptions& options);

}  // namespace pipesim
