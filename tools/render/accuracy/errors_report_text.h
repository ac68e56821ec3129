#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "tools/analysis/accuracy/errors_report.h"

namespace pipesim {

std::string to_text(const ErrorsReport& report, bool each_row);
std::string to_markdown(const ErrorsReport& report);  ///< the same tables for a document
nlohmann::ordered_json json_of(const ErrorsReport& report);

}  // namespace pipesim
