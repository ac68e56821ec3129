#include "executor/tensors/host_moves.h"

#include <array>
#include <cstring>
#include <string>

#include "executor/tensors/element_formats.h"
#include "sim/base/errors.h"

namespace pipesim {
namespace {

// The region as rows that are contiguous on both sides.
struct Rows {
  Rows(const Box& from, const Box& to, const Box& region) {
    std::int64_t from_stride = 1, to_stride = 1;
    for (std::size_t i = region.dims(); i-- > 0;) {
      from_begin += (region[i].begin - from[i].begin) * from_stride;
      to_begin += (region[i].begin - to[i].begin) * to_stride;
      const std::int64_t n = region[i].length();
      // A dimension joins the row while all inside it is whole on both sides.
      if (dims == 0 && from_stride == length && to_stride == length) {
        length *= n;
      } else if (n > 1) {
        count[dims] = n;
        from_step[dims] = from_stride;
        to_step[dims++] = to_stride;
      }
      from_stride *= from[i].length();
      to_stride *= to[i].length();
    }
  }
  std::int64_t length = 1, from_begin = 0, to_begin = 0;
  std::size_t dims = 0;
  std::array<std::int64_t, Box::max_dims> count{}, from_step{}, to_step{};
};

template <class Visit>
void for_each_row(const Rows& rows, std::size_t dim, std::int64_t from, std::int64_t to, Visit visit) {
  if (dim == 0) {
    visit(from, to);
    return;
  }
  for (std::int64_t i = 0; i < rows.count[dim - 1]; ++i) {
    for_each_row(rows, dim - 1, from + i * rows.from_step[dim - 1], to + i * rows.to_step[dim - 1], visit);
  }
}

template <class From, class To>
void convert(const HostPiece& from, const HostPiece& to, const Rows& rows, bool add) {
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

void copy(const HostPiece& from, const HostPiece& to, const Rows& rows) {
  const std::int64_t bytes = bytes_per_element(from.type);
  for_each_row(rows, rows.dims, rows.from_begin, rows.to_begin, [&](std::int64_t f, std::int64_t t) {
    std::memcpy(to.memory + t * bytes, from.memory + f * bytes,
                static_cast<std::size_t>(rows.length * bytes));
  });
}

using Float32Element = PlainElement<float>;
using Float64Element = PlainElement<double>;

template <class From>
bool convert_floating(const HostPiece& from, const HostPiece& to, const Rows& rows, bool add) {
  switch (to.type) {
    case DataType::Float32:
    case DataType::TensorFloat32:
      convert<From, Float32Element>(from, to, rows, add);
      return true;
    case DataType::Float64:
      convert<From, Float64Element>(from, to, rows, add);
      return true;
    case DataType::BFloat16:
      convert<From, BFloat16Element>(from, to, rows, add);
      return true;
    case DataType::Float16:
      convert<From, Float16Element>(from, to, rows, add);
      return true;
    default:
      return false;
  }
}

template <class From>
bool convert_integer(const HostPiece& from, const HostPiece& to, const Rows& rows, bool add) {
  switch (to.type) {
    case DataType::Int64:
      convert<From, PlainElement<std::int64_t>>(from, to, rows, add);
      return true;
    case DataType::Int32:
      convert<From, PlainElement<std::int32_t>>(from, to, rows, add);
      return true;
    case DataType::UInt8:
      convert<From, PlainElement<std::uint8_t>>(from, to, rows, add);
      return true;
    default:
      return false;
  }
}

bool convert(const HostPiece& from, const HostPiece& to, const Rows& rows, bool add) {
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
  const Rows rows(from.box, to.box, region);
  if (from.type == to.type && !add) {
    copy(from, to, rows);
  } else if (!convert(from, to, rows, add)) {
    throw InternalError("nothing should move from " + std::string(name_of(from.type)) + " to " +
                        std::string(name_of(to.type)));
  }
}

}  // namespace pipesim
