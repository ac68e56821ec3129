#pragma once

#include <memory>
#include <string>

#include "executor/communication/transport.h"

namespace pipesim {

class Mailboxes;

/// A world of endpoints that are threads of this process; each message is one memcpy.
///
///     SharedMemory world(4);
///     std::unique_ptr<Communicator> all = world_communicator(world.transport(rank));  // in each thread
class SharedMemory {
 public:
  explicit SharedMemory(int endpoints);

  /// May be called from any thread; transports may outlive the world.
  [[nodiscard]] std::shared_ptr<Transport> transport(int endpoint) const;
  /// Makes pending and later exchanges throw a DeviceError, like Transport::abort.
  void abort(const std::string& reason);

 private:
  std::shared_ptr<Mailboxes> mailboxes_;
};

}  // namespace pipesim
