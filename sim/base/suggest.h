#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace pipesim {

/// The candidate that `name` was probably meant for: `name` may be misspelt, a part of it, or a synonym. ""
/// when no candidate is close.
std::string nearest_name(std::string_view name, std::span<const std::string> candidates);

/// " (did you mean \"resnet50\"?)" or "".
std::string did_you_mean(std::string_view name, std::span<const std::string> candidates);

/// "a, b, c" with at most `most` names, then ", … (12 in all)".
std::string list_names(std::span<const std::string> names, std::size_t most = 20);

/// "1 stage", "2 stages", "3 microbatches".
std::string counted(std::int64_t number, std::string_view noun);

}  // namespace pipesim
