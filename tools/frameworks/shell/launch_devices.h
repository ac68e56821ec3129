#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

namespace pipesim {

/// Devices that a call of torchrun or deepspeed starts; nothing where it has none with plain numbers. `text`:
/// the value of a flag, with dashes, or nothing.
std::optional<std::int64_t> launched_devices(
    const std::function<std::optional<std::string>(std::string_view flag)>& text);

}  // namespace pipesim
