#pragma once

#include "tools/interop/python/python_module.h"
#include "tools/interop/settings/settings.h"

namespace pipesim {

/// The fields of an object, those of its objects with dots. A field whose object has a class is also a
/// setting with the class as its text; the object's own class is the setting "class".
Settings python_settings(const PythonReference& object, const std::string& source);

/// The last text that stands in a value, as "a.csv" in str(folder / "a.csv"); "": none.
std::string text_within(const PythonReference& value);

}  // namespace pipesim
