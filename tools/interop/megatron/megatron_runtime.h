#pragma once

#include "tools/interop/framework/framework_run.h"
#include "tools/interop/megatron/megatron_file.h"
#include "tools/interop/megatron/megatron_model.h"

namespace pipesim {

/// Reads what a run says of its Runtime: what brings tokens to experts (--moe-token-dispatcher-type), and
/// what is recorded as CUDA graphs (--cuda-graph-impl and its older forms). Unknown values go to
/// run.left_out.
void read_megatron_runtime(const MegatronFile& file, FrameworkRun& run);
void write_megatron_dispatcher(const FrameworkPlan& plan, MegatronWriter& w);
void write_megatron_graphs(const FrameworkPlan& plan, MegatronWriter& w);
/// Refuses what the version's own checks of CUDA graphs refuse.
void refuse_megatron_graphs(const FrameworkPlan& plan, RuleCheck& check);

}  // namespace pipesim
