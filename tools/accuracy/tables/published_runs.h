#pragma once

#include <vector>

#include "tools/accuracy/tables/measured_run.h"
#include "tools/accuracy/tables/measured_table.h"

namespace pipesim {

/// Iteration times that papers give of GPT models under Megatron-LM on A100 (arXiv:2104.04473, 2205.05198,
/// 2402.15627): columns source, model, hidden, ffn, heads, layers, vocab, seq, gpu, n_gpus, tp, pp, dp, vpp,
/// schedule, recompute, seq_par, gbs, mbs, iter_time_s. InputError for a malformed table.
std::vector<MeasuredRun> published_runs(const MeasuredTable& table);

/// GPTs under Megatron-LM with the schedules of Qi et al. (ICLR 2024, arXiv:2401.10241, tables 3 to 5):
/// columns model, layers, heads, hidden, seq, gpu, n_gpus(=pp stages), microbatch_size, n_microbatches,
/// schedule (1F1B, 1F1B-I, ZB-1p, ZB-2p), samples_per_gpu_per_s, peak_mem_GB (of the fullest GPU). Schedules
/// are compared with 1F1B. InputError for a malformed table.
std::vector<MeasuredRun> zero_bubble_runs(const MeasuredTable& table);

/// InternLM-7B under InternEvo on 8 to 1,024 A100 (InternLM/InternEvo, doc/en/train_performance.md,
/// Apache-2.0): columns Parallel Configuration with a column of rates for each number of GPUs, or TP, Zero1,
/// Activation Ckpt, GPU Num, Seq Len, Micro Bsz, Micro Num, TGS. State that all copies divide is compared
/// with state that those of a node divide. InputError for a malformed table.
std::vector<MeasuredRun> internevo_runs(const MeasuredTable& table);

}  // namespace pipesim
