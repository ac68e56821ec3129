#pragma once

#include <cstddef>
#include <cstdint>

#include "executor/gpu/bodies/parts/body.h"
#include "executor/gpu/bodies/parts/float_group.h"
#include "executor/gpu/bodies/parts/floats.h"
#include "executor/tensors/region_rows.h"

namespace pipesim::gpu {

/// Element i of a region; divides in 32 bits where they suffice, which is several times as fast.
PIPESIM_DEVICE inline ElementPair element_of(const RegionRows& rows, std::int64_t i, bool few) {
  return few ? rows.at(static_cast<std::uint32_t>(i)) : rows.at(static_cast<std::uint64_t>(i));
}

struct alignas(16) SixteenBytes {
  std::uint64_t low = 0, high = 0;
};

/// Copies rows of units of bytes, whatever they mean.
template <class Unit>
struct CopyRows {
  const Unit* from = nullptr;
  Unit* to = nullptr;
  RegionRows rows;
  bool few = false;  ///< 32 bits count all units
  PIPESIM_DEVICE void operator()(std::int64_t i) const {
    const ElementPair at = element_of(rows, i, few);
    to[at.to] = from[at.from];
  }
};

/// Copies or adds floating-point elements; in float64 where either piece holds it.
struct MoveFloats {
  Floats from, to;
  RegionRows rows;
  bool add = false, few = false;
  PIPESIM_DEVICE void operator()(std::int64_t i) const {
    const ElementPair at = element_of(rows, i, few);
    if (from.stored == Stored::Float64 || to.stored == Stored::Float64) {
      const double moved = precisely(from, at.from), sum = add ? precisely(to, at.to) + moved : moved;
      if (to.stored == Stored::Float64) {
        static_cast<double*>(to.memory)[at.to] = sum;
      } else {
        to.set(at.to, static_cast<float>(sum));
      }
    } else {
      to.set(at.to, add ? to[at.to] + from[at.from] : from[at.from]);
    }
  }

 private:
  static PIPESIM_DEVICE double precisely(const Floats& elements, std::int64_t i) {
    return elements.stored == Stored::Float64 ? static_cast<const double*>(elements.memory)[i]
                                              : static_cast<double>(elements[i]);
  }
};

/// Does the same as MoveFloats by groups. The elements are contiguous in both pieces, and neither holds
/// float64.
struct MoveFloatGroups {
  Floats from, to;
  bool add = false;
  std::int64_t elements = 0;
  PIPESIM_DEVICE void operator()(std::int64_t i) const {
    const GroupPlace at = group_at(i, elements);
    FloatGroup moved = read_group(from, at);
    if (add) {
      const FloatGroup sum = read_group(to, at);
      for (int k = 0; k < FloatGroup::size; ++k) moved.values[k] = sum.values[k] + moved.values[k];
    }
    write_group(to, at, moved);
  }
};

/// Copies or adds integers of 8 bytes, 4 bytes, or 1 byte without a sign; they wrap around.
struct MoveIntegers {
  const std::byte* from = nullptr;
  std::byte* to = nullptr;
  std::int32_t from_bytes = 8, to_bytes = 8;
  RegionRows rows;
  bool add = false, few = false;
  PIPESIM_DEVICE void operator()(std::int64_t i) const {
    const ElementPair at = element_of(rows, i, few);
    std::uint64_t sum = loaded(from, from_bytes, at.from);
    if (add) sum += loaded(to, to_bytes, at.to);
    if (to_bytes == 8) {
      reinterpret_cast<std::uint64_t*>(to)[at.to] = sum;
    } else if (to_bytes == 4) {
      reinterpret_cast<std::uint32_t*>(to)[at.to] = static_cast<std::uint32_t>(sum);
    } else {
      reinterpret_cast<std::uint8_t*>(to)[at.to] = static_cast<std::uint8_t>(sum);
    }
  }

 private:
  static PIPESIM_DEVICE std::uint64_t loaded(const std::byte* memory, std::int32_t bytes, std::int64_t i) {
    if (bytes == 8) return reinterpret_cast<const std::uint64_t*>(memory)[i];
    if (bytes == 4) {
      const std::int64_t wide = reinterpret_cast<const std::int32_t*>(memory)[i];
      return static_cast<std::uint64_t>(wide);
    }
    return reinterpret_cast<const std::uint8_t*>(memory)[i];
  }
};

using MoveBodies =
    BodyList<CopyRows<std::uint8_t>, CopyRows<std::uint16_t>, CopyRows<std::uint32_t>,
             CopyRows<std::uint64_t>, CopyRows<SixteenBytes>, MoveFloats, MoveFloatGroups, MoveIntegers>;

}  // namespace pipesim::gpu
