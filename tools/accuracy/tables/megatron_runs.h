#pragma once

#include <vector>

#include "tools/accuracy/tables/measured_run.h"
#include "tools/accuracy/tables/measured_table.h"

namespace pipesim {

/// Runs of Megatron-LM's functional tests, with the bytes that PyTorch's allocator handed out on the last
/// rank (`mem-allocated-bytes`, `mem-max-allocated-bytes` of the golden values). Settings that the table does
/// not hold follow from the case's name by the conventions of the test suite (docs/llm.md). InputError for a
/// malformed table.
std::vector<MeasuredRun> megatron_runs(const MeasuredTable& table);

}  // namespace pipesim
