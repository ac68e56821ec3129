#pragma once

#include <string>
#include <string_view>

#include "sim/base/units.h"

namespace pipesim {

/// Memory of a device that plans must leave free, in addition to all that they are known to need: a share, or
/// bytes.
struct MemoryMargin {
  double share = 0;  ///< at least 0, less than 1
  Bytes bytes;       ///< at least 0

  /// "10%", "2 GB". InputError with what was found and what is allowed.
  static MemoryMargin parse(std::string_view text);
  /// Bytes that a device with this memory leaves free, rounded up to whole bytes.
  [[nodiscard]] Bytes of(Bytes memory) const;
  [[nodiscard]] bool is_none() const { return share == 0 && bytes.value == 0; }
  /// The margin as parse() reads it: "10 %", "2 GB".
  [[nodiscard]] std::string str() const;
  bool operator==(const MemoryMargin&) const = default;
};

}  // namespace pipesim
