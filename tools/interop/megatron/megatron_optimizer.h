#pragma once

#include <string>
#include <vector>

#include "tools/interop/framework/framework.h"
#include "tools/interop/megatron/megatron_file.h"
#include "tools/interop/megatron/megatron_model.h"

namespace pipesim {

/// The optimizer of the arguments, with the types of its state, for weights of the type. What is taken
/// otherwise is added to `left_out`. InputError for an unknown one.
Optimizer read_megatron_optimizer(const MegatronFile& file, const DecoderSizes& sizes,
                                  std::vector<std::string>& left_out);
/// Whether gradients are kept in bfloat16 by --main-grads-dtype.
bool keeps_megatron_gradients_narrow(const MegatronFile& file);

/// --optimizer, and the types of its state where they are not the usual ones.
void write_megatron_state(const FrameworkPlan& plan, MegatronWriter& writer);

/// Refuse optimizers that Megatron-LM lacks, and state that it keeps only together with other settings.
void refuse_megatron_optimizer(const FrameworkPlan& plan, RuleCheck& check);
void refuse_megatron_state(const FrameworkPlan& plan, RuleCheck& check);

}  // namespace pipesim
