#pragma once

#include "executor/ranks/rendezvous.h"

namespace pipesim {

/// Over files beside `place.path` in a file system that all ranks share; for one run at a time.
///
///     PATH                  rank 0 writes the id of this run, drawn at random
///     PATH.ID.hello.R       rank R of the run it has read about writes a number drawn at random
///     PATH.ID.welcome       rank 0 writes all of these numbers: a rank that finds its own there has met
///                           this run, not what is left of one before
///     PATH.ID.N.R           the text of rank R in call N, removed after call N + 1
///     PATH.ID.alive.R       rank R writes that it is alive, twice a second (life_signs.h)
///     PATH.ID.bye.R         the last rank that leaves, so or by an error, removes all of these
///
/// All are written under another name, ".NAME.PROCESS", and renamed. What a run has left that ended otherwise
/// is removed by rank 0 of the next one, as far as PATH still names it and no rank of it goes on: what ranks
/// write later stays, and so does ".PATH.PROCESS" of a rank 0 that is killed while it writes PATH.
///
/// DeviceError "another run has begun at PATH" in a call of ranks, or in rank 0 that waits for others, when
/// PATH names another run.
std::unique_ptr<Rendezvous> open_file_rendezvous(const RendezvousPlace& place,
                                                 const RendezvousOptions& options);

}  // namespace pipesim
