#pragma once

#include <vector>

#include "tools/accuracy/tables/measured_run.h"
#include "tools/accuracy/tables/measured_table.h"

namespace pipesim {

/// Iteration times that papers give of GPT models under Megatron-LM on A100 (arXiv:2104.04473, 2205.05198,
/// 2402.15627): columns source, model, hidden, ffn, heads, layers, vocab, seq, gpu, n_gpus, tp, pp, dp, vpp,
/// schedule, recompute, seq_par, gbs, mbs, iter_time_s. InputError for a malformed table.
std::vector<MeasuredRun> published_runs(const MeasuredTable& table);

}  // namespace pipesim
