#pragma once

#include <vector>

#include "tools/accuracy/tables/measured_run.h"
#include "tools/accuracy/tables/measured_table.h"

namespace pipesim {

/// Collectives that nccl-tests measured inside one node (ai-dynamo/aiconfigurator): columns system
/// ("h100_sxm"), nccl_version, op ("all_reduce"), dtype, n_gpus, bytes, latency_us. InputError for a
/// malformed table.
std::vector<MeasuredRun> nccl_runs(const MeasuredTable& table);

/// All-reduces of nccl-tests on a DGX-1 with V100s in the cube mesh (VIA-Research/vTrain, trace/v100):
/// columns gpu, n_gpus, bytes, time_us. InputError for a malformed table.
std::vector<MeasuredRun> cube_mesh_runs(const MeasuredTable& table);

}  // namespace pipesim
