#pragma once

#include <vector>

#include "tools/accuracy/tables/measured_run.h"
#include "tools/accuracy/tables/measured_table.h"

namespace pipesim {

/// Runs that NVIDIA publishes with NeMo (columns Model, TP, …; products in float8 on DGX H100) and with
/// Megatron-Bridge (columns model, Precision, EP, FSDP, …). Rows are not judged that train adapters only, or
/// whose columns leave a recipe open. InputError for a malformed table.
std::vector<MeasuredRun> nemo_runs(const MeasuredTable& table);

/// Runs of GPT-3 175B for MLPerf Training (mlcommons/training_results): columns n_gpus, tp, pp, vpp, mbs,
/// gbs, grad_acc, seq, throughput_reported (tokens/s), other_flags, config_unique, ….
std::vector<MeasuredRun> mlperf_runs(const MeasuredTable& table);

}  // namespace pipesim
