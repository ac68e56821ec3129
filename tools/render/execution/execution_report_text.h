#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "tools/running/execution_report.h"

namespace pipesim {

nlohmann::ordered_json json_of(const ExecutionReport& report, const Subject& subject);
std::string to_text(const ExecutionReport& report, const Subject& subject);

}  // namespace pipesim
