#pragma once

#include <pybind11/pybind11.h>

#include <nlohmann/json_fwd.hpp>
#include <string_view>

namespace pipesim {

/// Text that came out of files; what is no UTF-8 is replaced.
pybind11::str utf8(std::string_view text);

/// Objects become dicts in the same order, arrays lists. Needs the interpreter's lock.
pybind11::object to_python(const nlohmann::ordered_json& json);

}  // namespace pipesim
