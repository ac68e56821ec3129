#pragma once

#include <cstdint>
#include <string_view>

#include "costmodel/runtime/runtime.h"

namespace pipesim {

/// What the devices of a pipeline do while a tensor goes from one of their stages to another.
enum class StageMessages : std::uint8_t {
  Beside,   ///< they go on computing (Megatron-LM's overlap_p2p_comm)
  Blocking  ///< sender and receiver compute nothing meanwhile
};

/// "beside", "blocking".
std::string_view name_of(StageMessages messages);
/// InputError with those that are allowed.
StageMessages parse_stage_messages(std::string_view name);

/// What stages do under a schedule where nothing else says so.
StageMessages usual_messages(MessageOverlap overlap, std::string_view schedule);

}  // namespace pipesim
