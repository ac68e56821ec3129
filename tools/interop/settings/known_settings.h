#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tools/interop/settings/settings.h"

namespace pipesim {

/// What becomes of some settings.
struct KnownSettings {
  enum class Effect : std::uint8_t {
    Used,         ///< they are read
    None,         ///< they change neither time nor memory of an iteration
    NotModelled,  ///< they change them, and the plan goes without
    Refused       ///< the plan would be another one
  };
  Effect effect = Effect::None;
  /// Paths, separated by blanks; one that ends with a dot and a star stands for all that it begins.
  std::string_view paths;
  std::string_view what = {};    ///< how a plan goes without, or what cannot be expressed
  std::string_view unless = {};  ///< a value that asks for nothing, beside none, false, 0 and an empty list
};

/// Adds "PATH: …" to `left_out` for settings that are not modelled, and for those in no row. InputError for
/// those that are refused. `owner`: whose settings they are, for messages.
void tell_settings(const Settings& settings, std::span<const KnownSettings> known, std::string_view owner,
                   std::vector<std::string>& left_out);

}  // namespace pipesim
