#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "tools/interop/framework/decoder_sizes.h"
#include "tools/interop/megatron/megatron_file.h"

namespace pipesim {

/// A recipe of products in 8 bits as Megatron-LM and as the zoo name it; the first one is the default.
struct MegatronPrecision {
  std::string_view recipe, products;
};
inline constexpr std::array kMegatronRecipes = std::to_array<MegatronPrecision>(
    {{"delayed", "fp8-delayed"}, {"tensorwise", "float8"}, {"blockwise", "fp8-block"}, {"mxfp8", "mxfp8"}});

/// The sizes of the model that arguments of Megatron-LM describe. `tensor`: the degree of tp, to which the
/// vocabulary is filled up. What is taken otherwise is added to `left_out`, as in FrameworkRun. InputError
/// when something is missing, contradicts itself, or no model of the zoo has it.
DecoderSizes megatron_sizes(const MegatronFile& file, std::int64_t tensor,
                            std::vector<std::string>& left_out);

/// Whether the arguments are of BERT, or of T5: by the program, or by arguments that only these have.
bool is_bert(const MegatronFile& file);
bool is_t5(const MegatronFile& file);

}  // namespace pipesim
