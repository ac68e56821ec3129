#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace pipesim {

/// Kinds of files that have a JSON Schema (draft-07): "model", "plan", "study", "topology"; and "search",
/// what `search --json` prints.
const std::vector<std::string>& kinds_of_schemas();

/// The schema of one kind, by which editors complete and check files. InternalError on other kinds.
std::string file_schema(std::string_view kind);

/// The schemas of `schemas/`, which the build compiles into the program.
std::string_view plan_schema();
std::string_view search_schema();
std::string_view study_schema();
std::string_view topology_schema();

}  // namespace pipesim
