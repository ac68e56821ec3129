#pragma once

#include <memory>

#include "executor/communication/communicator.h"
#include "executor/communication/transport.h"

namespace pipesim {

/// The communicator of all endpoints of a world; the rank is the endpoint. Every collective is one exchange
/// between the members, or two: sums of more than a few KiB are formed in pieces, each by one member, and
/// then gathered. May be used from several threads, and may outlive its creator.
std::unique_ptr<Communicator> world_communicator(std::shared_ptr<Transport> transport);

/// The communicator of `members`, distinct endpoints that include this one; the rank is the position in the
/// list. Called by all members, without any exchange between them.
std::unique_ptr<Communicator> group_communicator(std::shared_ptr<Transport> transport,
                                                 std::span<const int> members);

}  // namespace pipesim
