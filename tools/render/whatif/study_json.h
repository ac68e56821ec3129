#pragma once

#include <cstddef>
#include <nlohmann/json_fwd.hpp>
#include <span>
#include <string>

#include "sim/base/json_reader.h"
#include "tools/analysis/whatif/study.h"

namespace pipesim {

/// The file format `pipesim_study`, version 1.
nlohmann::ordered_json json_of(const Study& study);
/// InputError that names the file and the place.
Study study_of(const JsonValue& root);
Study read_study(const std::string& file);
/// The same of the file's text.
Study study_in(const std::string& text, const std::string& file);

/// Write points as text, and add the points of such a text to a study.
std::string text_of_points(const Study& study, std::span<const std::size_t> numbers);
void add_points(Study& study, const std::string& text);

}  // namespace pipesim
