#pragma once

#include <filesystem>
#include <string_view>

#include "sim/base/json_reader.h"

namespace pipesim {

/// Keys that hold the version of a file of pipesim, and so say what it is.
inline constexpr std::string_view kModelKey = "pipesim_model", kTopologyKey = "pipesim_topology",
                                  kPlanKey = "pipesim_plan", kSearchKey = "pipesim_search",
                                  kAutoSearchKey = "pipesim_auto_search";

/// InputError when a file that should have `key` is another one that pipesim writes: says what it is, where
/// it goes, and what writes the file that is needed. Any other file passes.
void require_file_kind(const JsonValue& root, std::string_view key);

/// InputError when the text of a file that should be JSON is known to be something else: SQLite (a
/// calibration), XML, an archive.
void require_json_text(std::string_view text, std::string_view file);

/// InputError when the file is JSON that pipesim writes: says that it is no `needed` ("a calibration"), and
/// what writes one. Any other file passes.
void refuse_json_as(std::string_view needed, std::string_view writer, const std::filesystem::path& file);

}  // namespace pipesim
