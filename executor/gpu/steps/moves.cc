#include "executor/gpu/steps/moves.h"

#include <bit>
#include <limits>

#include "executor/gpu/bodies/moves.h"
#include "models/operator_draft.h"

namespace pipesim::gpu {
namespace {

bool few_enough(std::int64_t elements) { return elements <= std::numeric_limits<std::uint32_t>::max(); }

bool stored_alike(DataType a, DataType b) {
  return a == b || (is_floating(a) && is_floating(b) && stored_as(a) == stored_as(b));
}

// Bytes, at most 16, of which all rows of a region consist and at whose multiples they lie.
std::int64_t unit_of(const std::byte* from, const std::byte* to, const RegionRows& rows, std::int64_t bytes) {
  std::uint64_t bits = 16 | std::bit_cast<std::uintptr_t>(from) | std::bit_cast<std::uintptr_t>(to);
  bits |= static_cast<std::uint64_t>(rows.length * bytes);
  for (std::size_t d = 0; d < rows.dims; ++d)
    bits |= static_cast<std::uint64_t>(rows.from_step[d] * bytes) |
            static_cast<std::uint64_t>(rows.to_step[d] * bytes);
  return std::int64_t{1} << std::countr_zero(bits);
}

template <class Unit>
void copy_units(Stream& stream, const std::byte* from, std::byte* to, RegionRows rows, std::int64_t bytes) {
  constexpr auto unit = static_cast<std::int64_t>(sizeof(Unit));
  rows.from_begin = rows.to_begin = 0;
  rows.length = rows.length * bytes / unit;
  for (std::size_t d = 0; d < rows.dims; ++d) {
    rows.from_step[d] = rows.from_step[d] * bytes / unit;
    rows.to_step[d] = rows.to_step[d] * bytes / unit;
  }
  const std::int64_t units = rows.elements();
  run(stream, units,
      CopyRows<Unit>{reinterpret_cast<const Unit*>(from), reinterpret_cast<Unit*>(to), rows,
                     few_enough(units)});
}

// The widest accesses that the rows allow.
void copy_rows(Stream& stream, const Piece& from, const Piece& to, const RegionRows& rows) {
  const std::int64_t bytes = bytes_per_element(from.type);
  const std::byte* source = from.memory + rows.from_begin * bytes;
  std::byte* target = to.memory + rows.to_begin * bytes;
  if (rows.dims == 0) return stream.copy(target, source, static_cast<std::size_t>(rows.length * bytes));
  switch (unit_of(source, target, rows, bytes)) {
    case 16:
      return copy_units<SixteenBytes>(stream, source, target, rows, bytes);
    case 8:
      return copy_units<std::uint64_t>(stream, source, target, rows, bytes);
    case 4:
      return copy_units<std::uint32_t>(stream, source, target, rows, bytes);
    case 2:
      return copy_units<std::uint16_t>(stream, source, target, rows, bytes);
    default:
      return copy_units<std::uint8_t>(stream, source, target, rows, bytes);
  }
}

}  // namespace

void zero_piece(Stream& stream, const Piece& piece) {
  const std::int64_t bytes = piece.elements() * bytes_per_element(piece.type);
  if (bytes > 0) stream.zero(piece.memory, static_cast<std::size_t>(bytes));
}

void move_region(Stream& stream, const Piece& from, const Piece& to, const Box& region, bool add) {
  require_movable(from.type, to.type);
  if (region.empty()) return;
  const RegionRows rows(from.box, to.box, region);
  const std::int64_t n = rows.elements();
  const bool few = few_enough(n);
  if (stored_alike(from.type, to.type) && !add) {
    copy_rows(stream, from, to, rows);
  } else if (!is_floating(from.type)) {
    const auto bytes = [](const Piece& piece) {
      return static_cast<std::int32_t>(bytes_per_element(piece.type));
    };
    run(stream, n, MoveIntegers{from.memory, to.memory, bytes(from), bytes(to), rows, add, few});
  } else if (rows.dims == 0 && from.type != DataType::Float64 && to.type != DataType::Float64) {
    run_in_groups(stream, n,
                  MoveFloatGroups{from.floats().from(rows.from_begin), to.floats().from(rows.to_begin), add});
  } else {
    run(stream, n, MoveFloats{from.floats(), to.floats(), rows, add, few});
  }
}

}  // namespace pipesim::gpu
