#pragma once

#include "executor/backend/backend.h"

namespace pipesim {

/// This device's part in a collective between buffers in host memory.
void communicate_on_host(const CommunicationWork& work, const Memory& memory, Communicator& world,
                         std::int64_t tag);

}  // namespace pipesim
