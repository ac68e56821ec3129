#pragma once

#include <vector>

#include "tools/accuracy/tables/measured_run.h"
#include "tools/accuracy/tables/measured_table.h"

namespace pipesim {

/// Products, collectives and host copies that ran side by side on the GPUs of a node (Dazz993/Mist,
/// Apache-2.0): columns gpu, intra_group (GPUs of a collective), gemm_n, gemm_m, gemm_k, g2g_MB (collective),
/// c2g_MB (to the device), g2c_MB (to the host), latency_ms. What each part takes alone follows from the
/// first, third, … rows with that part alone: overhead + amount by rate, the least squares of relative
/// errors. Only the second, fourth, … rows are judged. InputError for a malformed table.
std::vector<MeasuredRun> mixture_runs(const MeasuredTable& table);

}  // namespace pipesim
