#pragma once

#include <cstdint>
#include <vector>

#include "sim/base/units.h"

namespace pipesim {

/// The places of each device's buffers in one block of memory.
struct ArenaPlan {
  static constexpr std::int64_t kAlignment = 256;  ///< bytes; what GPUs' copies and vector loads like

  std::vector<std::int64_t> offset;  ///< by buffer, bytes from the beginning of its device's block
  std::vector<Bytes> size;           ///< of the blocks, by device id
};

}  // namespace pipesim
