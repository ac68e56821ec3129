#pragma once

#include <string>

#include "sim/base/json_reader.h"
#include "topologies/checks.h"

namespace pipesim {

/// Returns `figure`, which was read at `place`. InputError there unless `fault` (topologies/checks.h) is
/// empty.
template <class Figure>
Figure checked(const JsonValue& place, Figure figure, const std::string& fault) {
  if (!fault.empty()) place.fail(fault);
  return figure;
}

inline Seconds latency(const JsonValue& value) {
  return checked(value, value.duration(), fault_of_latency(value.duration()));
}

}  // namespace pipesim
