#pragma once

#include <vector>

#include "tools/accuracy/tables/measured_run.h"
#include "tools/accuracy/tables/measured_table.h"

namespace pipesim {

/// Runs of Llama 3 that torchtitan's documents publish (pytorch/torchtitan, docs/performance.md and
/// benchmarks/, BSD-3): FSDP, tensor, context and pipeline parallelism, compiled or not, in bfloat16 and
/// float8. Columns path, section, Quantization, TP type, Average TPS, Techniques, Parallelism, Sequence
/// Length, Schedule, NUM_NODES, TPS/GPU, Model size, Activation checkpointing, WPS, …. What the columns leave
/// open (devices, batch) is what the documents say above each table. Rows that repeat a measurement are told
/// as such. Memory is not compared: it is what the allocator reserved. InputError for a malformed table.
std::vector<MeasuredRun> torchtitan_runs(const MeasuredTable& table);

}  // namespace pipesim
