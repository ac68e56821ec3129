#include "executor/tensors/host_moves.h"

#include <cstring>

#include "executor/elements/element_formats.h"
#include "executor/tensors/region_rows.h"

namespace pipesim {
namespace {

template <class Visit>
void for_each_row(const RegionRows& rows, std::size_t dim, std::int64_t from, std::int64_t to, Visit visit) {
  if (dim == 0) {
    visit(from, to);
    return;
  }
  for (std::int64_t i = 0; i < rows.count[dim - 1]; ++i) {
    for_each_row(rows, dim - 1, from + i * rows.from_step[dim - 1], to + i * rows.to_step[dim - 1], visit);
  }
}

template <class From, class To>
void convert(const HostPiece& from, const HostPiece& to, const RegionRows& rows, bool add) {
  const auto* source = reinterpret_cast<const typename From::Stored*>(from.memory);
  auto* target = reinterpret_cast<typename To::Stored*>(to.memory);
  for_each_row(rows, rows.dims, rows.from_begin, rows.to_begin, [&](std::int64_t f, std::int64_t t) {
    if (add) {
      for (std::int64_t i = 0; i < rows.length; ++i)
        target[t + i] = To::store(To::load(target[t + i]) + From::load(source[f + i]));
    } else {
      for (std::int64_t i = 0; i < rows.length; ++i) target[t + i] = To::store(From::load(source[f + i]));
    }
  });
}

void copy(const HostPiece& from, const HostPiece& to, const RegionRows& rows) {
  const std::int64_t bytes = bytes_per_element(from.type);
  for_each_row(rows, rows.dims, rows.from_begin, rows.to_begin, [&](std::int64_t f, std::int64_t t) {
    std::memcpy(to.memory + t * bytes, from.memory + f * bytes,
                static_cast<std::size_t>(rows.length * bytes));
  });
}

using Float32Element = PlainElement<float>;
using Float64Element = PlainElement<double>;

template <class From>
void convert_floating(const HostPiece& from, const HostPiece& to, const RegionRows& rows, bool add) {
  switch (to.type) {
    case DataType::Float64:
      return convert<From, Float64Element>(from, to, rows, add);
    case DataType::BFloat16:
      return convert<From, BFloat16Element>(from, to, rows, add);
    case DataType::Float16:
      return convert<From, Float16Element>(from, to, rows, add);
    default:
      return convert<From, Float32Element>(from, to, rows, add);
  }
}

template <class From>
void convert_integer(const HostPiece& from, const HostPiece& to, const RegionRows& rows, bool add) {
  switch (to.type) {
    case DataType::Int64:
      return convert<From, PlainElement<std::int64_t>>(from, to, rows, add);
    case DataType::Int32:
      return convert<From, PlainElement<std::int32_t>>(from, to, rows, add);
    default:
      return convert<From, PlainElement<std::uint8_t>>(from, to, rows, add);
  }
}

void convert(const HostPiece& from, const HostPiece& to, const RegionRows& rows, bool add) {
  switch (from.type) {
    case DataType::Float32:
    case DataType::TensorFloat32:
      return convert_floating<Float32Element>(from, to, rows, add);
    case DataType::Float64:
      return convert_floating<Float64Element>(from, to, rows, add);
    case DataType::BFloat16:
      return convert_floating<BFloat16Element>(from, to, rows, add);
    case DataType::Float16:
      return convert_floating<Float16Element>(from, to, rows, add);
    case DataType::Int64:
      return convert_integer<PlainElement<std::int64_t>>(from, to, rows, add);
    case DataType::Int32:
      return convert_integer<PlainElement<std::int32_t>>(from, to, rows, add);
    default:
      return convert_integer<PlainElement<std::uint8_t>>(from, to, rows, add);
  }
}

}  // namespace

HostPiece host_piece(const View& view, const Memory& memory) {
  const DataType type = memory.buffer(view.buffer).type;
  return {memory.address(view.buffer) + view.offset * bytes_per_element(type), type, view.box};
}

void fill_zero(const HostPiece& piece) {
  std::memset(piece.memory, 0,
              static_cast<std::size_t>(piece.box.elements() * bytes_per_element(piece.type)));
}

void move_region(const HostPiece& from, const HostPiece& to, const Box& region, bool add) {
  require_movable(from.type, to.type);
  const RegionRows rows(from.box, to.box, region);
  if (from.type == to.type && !add) {
    copy(from, to, rows);
  } else {
    convert(from, to, rows, add);
  }
}

}  // namespace pipesim
