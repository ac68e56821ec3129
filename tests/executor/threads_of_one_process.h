#pragma once

#include <memory>
#include <vector>

#include "executor/group_communicator.h"
#include "executor/shared_memory.h"
#include "sim/base/ids.h"

namespace pipesim {

/// Devices 0 … n−1 as threads of the test, with a communicator each.
class ThreadWorld {
 public:
  explicit ThreadWorld(std::size_t devices) : memory_(static_cast<int>(devices)) {
    for (std::size_t d = 0; d < devices; ++d) {
      owned_.push_back(world_communicator(memory_.transport(static_cast<int>(d))));
      worlds_.push_back(owned_.back().get());
      devices_.emplace_back(d);
    }
  }
  [[nodiscard]] std::span<Communicator* const> worlds() const { return worlds_; }
  [[nodiscard]] const std::vector<DeviceId>& devices() const { return devices_; }

 private:
  SharedMemory memory_;
  std::vector<std::unique_ptr<Communicator>> owned_;
  std::vector<Communicator*> worlds_;
  std::vector<DeviceId> devices_;
};

}  // namespace pipesim
