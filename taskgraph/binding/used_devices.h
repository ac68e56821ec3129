#pragma once

#include <cstdint>
#include <vector>

#include "taskgraph/binding/bound_operator.h"

namespace pipesim {

/// Numbers the devices on which a strategy has shards. A folded plan uses few of a large machine's.
class UsedDevices {
 public:
  UsedDevices(const BoundStrategy& strategy, std::size_t num_devices) : number_(num_devices, -1) {
    for (const BoundOperator* bound : strategy) {
      for (const DeviceId d : bound->config.devices) {
        if (number_[d.index()] < 0) number_[d.index()] = size_++;
      }
    }
  }
  [[nodiscard]] std::size_t size() const { return static_cast<std::size_t>(size_); }
  /// Returns the number of a device that is used.
  [[nodiscard]] std::size_t operator[](DeviceId device) const {
    return static_cast<std::size_t>(number_[device.index()]);
  }

 private:
  std::vector<std::int32_t> number_;
  std::int32_t size_ = 0;
};

}  // namespace pipesim
