#pragma once

#include <filesystem>
#include <string_view>

#include "sim/base/json_reader.h"

namespace pipesim {

/// The JSON keys that hold the version of each kind of pipesim file. The key that is present tells the kind.
inline constexpr std::string_view kModelKey = "pipesim_model", kTopologyKey = "pipesim_topology",
                                  kPlanKey = "pipesim_plan", kSearchKey = "pipesim_search",
                                  kAutoSearchKey = "pipesim_auto_search", kConstantsKey = "pipesim_constants",
                                  kStudyKey = "pipesim_study", kTraceKey = "traceEvents";
/// The first line of a log of a search.
inline constexpr std::string_view kSearchLogHeader = "seconds,proposals,best,chain";

/// InputError when the file should have `key` but is another kind of pipesim file. The message says which
/// kind it is, which option takes it, and which command writes the kind that is needed. Any other file
/// passes.
void require_file_kind(const JsonValue& root, std::string_view key);

/// InputError when the text should be JSON but is recognised as something else: SQLite (a calibration), XML,
/// an archive, a log of a search or a page of `report`.
void require_json_text(std::string_view text, std::string_view file);

/// InputError when the file is JSON that pipesim writes. The message says that the file is not `needed` ("a
/// calibration") and that `writer` writes one. Any other file passes.
void refuse_json_as(std::string_view needed, std::string_view writer, const std::filesystem::path& file);

}  // namespace pipesim
