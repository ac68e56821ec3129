#pragma once

#include <cstdint>
#include <utility>

#include "topologies/presets/presets.h"

namespace pipesim {

/// A topology whose devices have so many bytes, all of them for plans; 0: as many as they have.
inline Topology with_device_memory(const char* name, std::int64_t bytes) {
  TopologyParts parts = make_topology(name).parts();
  for (DeviceKind& kind : parts.kinds) {
    kind.memory_overhead = {};
    if (bytes > 0) kind.memory = Bytes(bytes);
  }
  return Topology(std::move(parts));
}

}  // namespace pipesim
