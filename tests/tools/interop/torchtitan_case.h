#pragma once

#include <map>
#include <string>

#include "tests/tools/interop/framework_case.h"
#include "tools/interop/torchtitan/torchtitan_fields.h"
#include "tools/interop/torchtitan/torchtitan_files.h"

namespace pipesim {

inline std::map<std::string, std::string> fields_by_path(const FrameworkPlan& plan) {
  std::map<std::string, std::string> fields;
  for (const TorchtitanField& field : torchtitan_fields(plan)) fields[field.path] = field.value;
  return fields;
}

inline std::string file_of(const FrameworkPlan& plan, const std::string& name) {
  for (const ExportedFile& file : torchtitan_files(plan)) {
    if (file.name == name) return file.content;
  }
  return "";
}

}  // namespace pipesim
