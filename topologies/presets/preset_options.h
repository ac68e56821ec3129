#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "topologies/presets/network.h"

namespace pipesim {

/// What may follow the number of nodes in the name of a preset.
struct PresetOptions {
  std::int64_t gpus = 0;  ///< of each node, the first ones, with their NICs; 0: all
  NetworkOptions network = {};

  /// "gpus=4,network=rail,leaf=16": what differs from the defaults, in the order of the members.
  [[nodiscard]] std::string str() const;
};

/// Reads "key=value,…" of the topology text `whole`. InputError on unknown or repeated keys, on bad values,
/// and on keys that the ideal network does not have.
PresetOptions parse_preset_options(std::string_view text, std::string_view whole);

}  // namespace pipesim
