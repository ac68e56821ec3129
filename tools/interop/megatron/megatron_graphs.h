#pragma once

#include <string>
#include <vector>

#include "costmodel/runtime/cuda_graphs.h"
#include "tools/interop/megatron/megatron_file.h"
#include "tools/interop/megatron/megatron_model.h"

namespace pipesim {

/// What a run records as CUDA graphs (--cuda-graph-impl and its older forms). Values that are unknown go to
/// `left_out`.
CudaGraphs megatron_graphs(const MegatronFile& file, std::vector<std::string>& left_out);
void write_megatron_graphs(const FrameworkPlan& plan, MegatronWriter& w);
/// Refuses what the version's own checks of CUDA graphs refuse.
void refuse_megatron_graphs(const FrameworkPlan& plan, RuleCheck& check);

}  // namespace pipesim
