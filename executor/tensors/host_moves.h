#pragma once

#include <cstddef>

#include "executor/backend/backend.h"
#include "models/box.h"
#include "sim/base/data_type.h"

namespace pipesim {

/// A piece of a tensor in host memory: row-major over `box`.
struct HostPiece {
  std::byte* memory = nullptr;
  DataType type = DataType::Float32;
  Box box;
};

/// The piece that `view` stands for, in its buffer's present memory.
[[nodiscard]] HostPiece host_piece(const View& view, const Memory& memory);

void fill_zero(const HostPiece& piece);

/// Copies or adds `region`, which lies in both boxes, from one piece to the other and converts it. Sums of
/// 16-bit elements are formed in float32. InternalError for pairs of types between which nothing should move.
void move_region(const HostPiece& from, const HostPiece& to, const Box& region, bool add);

}  // namespace pipesim
