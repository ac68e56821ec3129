#pragma once

#include <nlohmann/json_fwd.hpp>
#include <vector>

#include "search/annealing/annealing_state.h"
#include "sim/base/json_reader.h"

namespace pipesim {

/// What every annealer's checkpoint has, as its first members and read from them.
nlohmann::ordered_json json_of(const AnnealingState& state);
/// InputError `FILE: /place: …`.
void read(const JsonValue& value, AnnealingState& state);
/// The member "chains" of its checkpoint, which has one or more.
std::vector<JsonValue> chains_of(const JsonValue& value);

}  // namespace pipesim
