#pragma once

#include <cstdint>
#include <string_view>

namespace pipesim {

/// What happens to an input that the devices of an operator put together from parts that each of them has,
/// and that backward reads too.
enum class GatheredInputs : std::uint8_t {
  Keep,  ///< stays on every device from forward to backward
  Again  ///< is freed when forward has read it; the parts stay, and are gathered again for backward
         ///< (Korthikanti et al. 2023, section 4.2.2)
};

/// "keep", "again".
std::string_view name_of(GatheredInputs gathered);
/// InputError with those that are allowed.
GatheredInputs parse_gathered_inputs(std::string_view name);

}  // namespace pipesim
