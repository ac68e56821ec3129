#pragma once

#include <string_view>
#include <vector>

#include "costmodel/collectives.h"
#include "sim/base/ids.h"
#include "sim/base/units.h"

namespace pipesim {

/// "all-reduce" …; InputError with "did you mean" otherwise.
Collective parse_collective(std::string_view text);

/// Devices of a topology with `count` of them: "all", or numbers, ranges and ranges with a step, such as
/// "0-7,16" or "0-63:8". In the order as written. InputError for numbers that are none, too large, or met
/// before, and for fewer than two devices.
std::vector<DeviceId> parse_device_list(std::string_view text, std::size_t count);

/// "1MiB..1GiB", each twice the one before; or a list, "4MiB,25MB". InputError with the allowed forms.
std::vector<Bytes> parse_sizes(std::string_view text);

}  // namespace pipesim
