#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "tools/analysis/plans/pipeline_report.h"

namespace pipesim {

std::string to_text(const PipelineReport& report);
/// "6", or of replicas that take microbatches in turn "3x2".
std::string devices_text(std::int64_t devices, std::int32_t replicas);
/// A JSON object.
nlohmann::ordered_json json_of(const PipelineReport& report);

}  // namespace pipesim
