#pragma once

#include <memory>

#include "executor/communicator.h"
#include "executor/transport.h"

namespace pipesim {

/// The communicator of all endpoints of a world, ranks being endpoints. Every collective is one exchange
/// between the members, or two: sums of more than a few KiB are formed piece by piece, each by one member,
/// and then gathered. May be used from several threads and outlive what made it.
std::unique_ptr<Communicator> world_communicator(std::shared_ptr<Transport> transport);

/// The communicator of `members` (endpoints, different ones, this one among them), ranks being positions in
/// the list. Called by all members, without any exchange between them.
std::unique_ptr<Communicator> group_communicator(std::shared_ptr<Transport> transport,
                                                 std::span<const int> members);

}  // namespace pipesim
