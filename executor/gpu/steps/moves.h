#pragma once

#include "executor/gpu/steps/kernel_call.h"

namespace pipesim::gpu {

void zero_piece(Stream& stream, const Piece& piece);

/// Does the same as the move_region() of pieces in host memory, for pieces in memory that the stream's device
/// reaches. It gives the stream one piece of work, or none for an empty region.
void move_region(Stream& stream, const Piece& from, const Piece& to, const Box& region, bool add);

}  // namespace pipesim::gpu
