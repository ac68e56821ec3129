#pragma once

#include <vector>

#include "tools/accuracy/tables/measured_run.h"
#include "tools/accuracy/tables/measured_table.h"

namespace pipesim {

/// MPT models under PyTorch's FSDP (mosaicml/llm-foundry, scripts/train/benchmarking): columns Model, SeqLen
/// (T), # GPUs, GPU, MicroBatchSize, GradAccum, GlobalBatchSize, Throughput (S/s), Precision, Sharding
/// Strategy, Activation Checkpointing. InputError for a malformed table.
std::vector<MeasuredRun> foundry_runs(const MeasuredTable& table);

}  // namespace pipesim
