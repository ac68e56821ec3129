#pragma once

#include <vector>

#include "tools/accuracy/tables/measured_run.h"
#include "tools/accuracy/tables/measured_table.h"

namespace pipesim {

/// Runs of Llama-like models under nanotron on H100s (huggingface/nanotron, The Ultra-Scale Playbook, 2025):
/// columns model, n_gpus, mbs, grad_acc, gbs, dp, pp, tp, zero, status, mfu_pct, tokens_per_s, gpu_mem_GB.
/// Runs that reached less than a tenth of the peak rate are not judged: their times hold up for other reasons
/// than the recipe, such as memory that is freed and asked for again. InputError for a malformed table.
std::vector<MeasuredRun> nanotron_runs(const MeasuredTable& table);

}  // namespace pipesim
