#pragma once

#include <cstdint>
#include <string_view>

#include "costmodel/runtime/runtime.h"
#include "sim/base/units.h"

namespace pipesim {

/// What a dispatcher takes of a device while tokens travel, and what it gets done with that.
struct DispatcherWork {
  std::int32_t multiprocessors = 0;  ///< that copy tokens
  double share = 0;  ///< of compute that goes on beside: those, and what copies cost the others
  /// What these copy, counting a token once for each device that it goes to, its own among them; 0: more than
  /// any link carries.
  BytesPerSecond copied;
};

/// The work of the runtime's dispatcher on a kind of device, inside a node or between nodes; nothing for
/// Dispatcher::AsModel. InputError where the kind is none of which the number of multiprocessors is known.
DispatcherWork dispatcher_work(const Runtime& runtime, std::string_view kind, bool between_nodes);

}  // namespace pipesim
