#pragma once

#include <vector>

#include "tools/accuracy/tables/measured_run.h"
#include "tools/accuracy/tables/measured_table.h"

namespace pipesim {

/// Iteration times of GPT models under Megatron-DeepSpeed, as vTrain's authors measured them on A100s (Bang
/// et al., MICRO 2024; VIA-Research/vTrain, data/ground_truth_*.csv): columns n_gpus, gbs, mbs, hidden,
/// heads, layers, seq, tp, dp, pp, iter_time_ms, recompute, schedule, gpu. InputError for a malformed table.
std::vector<MeasuredRun> gpt_runs(const MeasuredTable& table);

}  // namespace pipesim
