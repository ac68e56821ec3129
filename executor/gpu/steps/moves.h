#pragma once

#include "executor/gpu/steps/kernel_call.h"

namespace pipesim::gpu {

void zero_piece(Stream& stream, const Piece& piece);

/// As the move_region() of pieces in host memory, between pieces in memory that the stream's device reaches.
/// One piece of work of the stream; none for an empty region.
void move_region(Stream& stream, const Piece& from, const Piece& to, const Box& region, bool add);

}  // namespace pipesim::gpu
