#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

namespace pipesim {

/// What a sum of the shell's, as in $((…)), needs of variables.
struct ShellNumbers {
  std::function<std::optional<std::int64_t>(const std::string& name)> get;
  std::function<void(const std::string& name, std::optional<std::int64_t> value)> set;
};

/// The value of a sum whose $variables are replaced already. Nothing where a value is not known, or the text
/// is no sum.
std::optional<std::int64_t> shell_sum(std::string_view text, const ShellNumbers& numbers);

}  // namespace pipesim
