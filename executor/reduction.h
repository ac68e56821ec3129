#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "executor/communicator.h"

namespace pipesim {

/// result[i] = addends[0][i] + addends[1][i] + ..., from left to right, or their maximum (NaN if one is).
/// 16-bit types are summed in float32 and rounded once, to nearest even; integers wrap around. `result` may
/// be one of the addends. Memory is aligned as the type is.
void reduce_in_order(std::span<const void* const> addends, void* result, std::int64_t elements, DataType type,
                     ReduceOperation operation);

}  // namespace pipesim
