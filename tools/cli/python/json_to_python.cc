#include "tools/cli/python/json_to_python.h"

#include <nlohmann/json.hpp>
#include <string>

#include "python/module/background_call.h"

namespace pipesim {
namespace py = pybind11;

py::object to_python(const nlohmann::ordered_json& json) {
  if (json.is_object()) {
    py::dict dict;
    for (const auto& [key, value] : json.items()) dict[utf8(key)] = to_python(value);
    return dict;
  }
  if (json.is_array()) {
    py::list list;
    for (const auto& value : json) list.append(to_python(value));
    return list;
  }
  if (json.is_string()) return utf8(json.get_ref<const std::string&>());
  if (json.is_boolean()) return py::bool_(json.get<bool>());
  if (json.is_number_unsigned()) return py::int_(json.get<std::uint64_t>());
  if (json.is_number_integer()) return py::int_(json.get<std::int64_t>());
  if (json.is_number_float()) return py::float_(json.get<double>());
  return py::none();
}

}  // namespace pipesim
