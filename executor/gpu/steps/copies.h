#pragma once

#include "executor/gpu/steps/kernel_call.h"

namespace pipesim::gpu {

/// to[i] = from[i], in the type of `to`. Both are of floating-point numbers, or both of integers.
void copy_elements(Stream& stream, const Piece& from, const Piece& to);

}  // namespace pipesim::gpu
