#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

namespace pipesim {

/// Returns the number of devices that a call of torchrun or deepspeed starts; nothing where its flags don't
/// give it in plain numbers. `text` returns the value of a flag, with dashes, or nothing.
std::optional<std::int64_t> launched_devices(
    const std::function<std::optional<std::string>(std::string_view flag)>& text);

}  // namespace pipesim
