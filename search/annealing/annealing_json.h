#pragma once

#include <nlohmann/json_fwd.hpp>
#include <vector>

#include "search/annealing/annealing_state.h"
#include "sim/base/json_reader.h"

namespace pipesim {

/// The first members of every annealer's checkpoint, and their reader.
nlohmann::ordered_json json_of(const AnnealingState& state);
/// InputError `FILE: /place: …`.
void read(const JsonValue& value, AnnealingState& state);
/// The member "chains" of its checkpoint, which has one or more.
std::vector<JsonValue> chains_of(const JsonValue& value);

}  // namespace pipesim
