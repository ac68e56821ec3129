#pragma once

#include <pybind11/pybind11.h>

#include <nlohmann/json_fwd.hpp>

namespace pipesim {

/// Objects become dicts in the same order, arrays lists. Needs the interpreter's lock.
pybind11::object to_python(const nlohmann::ordered_json& json);

}  // namespace pipesim
