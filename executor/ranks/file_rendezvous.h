#pragma once

#include "executor/ranks/rendezvous.h"

namespace pipesim {

/// Over files beside `place.path` in a file system that all ranks share; for one run at a time.
///
///     PATH                  rank 0 writes the id of this run, drawn at random
///     PATH.ID.hello.R       rank R of the run it has read about writes a number drawn at random
///     PATH.ID.welcome       rank 0 writes all of these numbers: a rank that finds its own there has met this
///     run,
///                           not what is left of one before
///     PATH.ID.N.R           the text of rank R in call N, removed after call N + 1
///     PATH.ID.alive.R       rank R writes that it is alive, twice a second (life_signs.h)
///     PATH.ID.bye.R         the last rank that leaves, so or by an error, removes everything
///
/// All are written under another name and renamed. What a run has left that ended otherwise is removed by
/// rank 0 of the next one.
std::unique_ptr<Rendezvous> open_file_rendezvous(const RendezvousPlace& place,
                                                 const RendezvousOptions& options);

}  // namespace pipesim
