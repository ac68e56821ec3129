#pragma once

#include <span>
#include <string_view>

#include "tools/interop/megatron/megatron_flags.h"

namespace pipesim {

/// Arguments that mean the same to pipesim. Names are those of NVIDIA/Megatron-LM, versions 2.0 to core 0.19,
/// of bigscience-workshop/Megatron-DeepSpeed, of deepspeedai/Megatron-DeepSpeed, and of the programs that
/// start them (torchrun, deepspeed).
struct FlagRow {
  std::string_view flags;  ///< separated by blanks
  FlagEffect effect;
  std::string_view what, unless;  ///< see MegatronFlag
};

/// Those that are read, told or refused.
std::span<const FlagRow> flags_with_effect();
/// Those that change neither time nor memory of an iteration.
std::span<const FlagRow> flags_without_effect();

}  // namespace pipesim
