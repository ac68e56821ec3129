#pragma once

#include <string>
#include <string_view>

#include "sim/base/units.h"

namespace pipesim {

/// What stays free of a device's memory, beside all that a plan is known to need: a share of it, or bytes.
struct MemoryMargin {
  double share = 0;  ///< at least 0, less than 1
  Bytes bytes;       ///< at least 0

  /// "10%", "2 GB". InputError with what was found and what is allowed.
  static MemoryMargin parse(std::string_view text);
  /// What a device with this memory leaves free, rounded up to whole bytes.
  [[nodiscard]] Bytes of(Bytes memory) const;
  [[nodiscard]] bool is_none() const { return share == 0 && bytes.value == 0; }
  /// "10 %", "2 GB": what parse() reads.
  [[nodiscard]] std::string str() const;
  bool operator==(const MemoryMargin&) const = default;
};

}  // namespace pipesim
