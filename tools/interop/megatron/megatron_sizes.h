#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tools/interop/framework/decoder_sizes.h"
#include "tools/interop/megatron/megatron_file.h"

namespace pipesim {

/// The sizes of the model that arguments of Megatron-LM describe. `tensor`: the degree of tp, to which the
/// vocabulary is filled up. What is taken otherwise is added to `left_out`, as in FrameworkRun. InputError
/// when something is missing, contradicts itself, or no model of the zoo has it.
DecoderSizes megatron_sizes(const MegatronFile& file, std::int64_t tensor,
                            std::vector<std::string>& left_out);

/// Whether the arguments are of BERT, or of T5: by the program, or by arguments that only these have.
bool is_bert(const MegatronFile& file);
bool is_t5(const MegatronFile& file);

}  // namespace pipesim
