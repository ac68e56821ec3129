#include "topologies/memory_overhead.h"

#include <cmath>

namespace pipesim {

Bytes MemoryOverhead::usable(Bytes memory, std::int32_t communicators) const {
  if (is_none()) return memory;
  const Bytes left = installed - context - communicators * communicator;
  const double share = static_cast<double>(left.value) / (1 + fragmentation);
  return Bytes(static_cast<std::int64_t>(std::floor(share)));
}

}  // namespace pipesim
