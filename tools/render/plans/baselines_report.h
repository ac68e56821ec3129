#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "search/search.h"

namespace pipesim {

/// A list of baselines with name, and iteration_time_s, infeasible or not_scored.
nlohmann::ordered_json json_of(const std::vector<Baseline>& baselines);
/// Baselines side by side, the fastest feasible one marked; `batch` samples an iteration.
/// `what` they are: "baseline", or "plan" where others stand among them.
std::string baselines_table(const std::vector<Baseline>& baselines, std::int64_t batch,
                            const std::string& what = "baseline");

}  // namespace pipesim
