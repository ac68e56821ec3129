#pragma once

#include <nlohmann/json_fwd.hpp>
#include <span>
#include <string>

#include "tools/analysis/accuracy/collective_report.h"

namespace pipesim {

std::string to_text(std::span<const CollectiveRow> rows);
nlohmann::ordered_json json_of(const CollectiveRow& row);

}  // namespace pipesim
