#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "executor/gpu/bodies/parts/floats.h"
#include "executor/operators/device_code.h"

namespace pipesim::gpu {

/// Neighbouring elements that one thread reads or writes at once. With one 16-bit element at a time, too
/// little is under way between a device and its memory to reach a quarter of the memory's bandwidth.
struct FloatGroup {
  static constexpr std::int64_t size = 8;  ///< 16 bytes of a 16-bit type
  float values[size];                      // a plain array, so that device code may index it
};

/// Groups of so many elements; the last may have fewer.
PIPESIM_DEVICE constexpr std::int64_t groups_of(std::int64_t elements) {
  return (elements + FloatGroup::size - 1) / FloatGroup::size;
}

/// The elements of a group in a tensor.
struct GroupPlace {
  std::int64_t first = 0, count = 0;
  /// The place of the same group in a tensor where its row begins at `begin`.
  [[nodiscard]] PIPESIM_DEVICE constexpr GroupPlace in_row(std::int64_t begin) const {
    return {begin + first, count};
  }
};
/// The place of group i among so many elements.
PIPESIM_DEVICE constexpr GroupPlace group_at(std::int64_t i, std::int64_t elements) {
  const std::int64_t first = i * FloatGroup::size, left = elements - first;
  return {first, left < FloatGroup::size ? left : FloatGroup::size};
}

/// A row of a tensor, its elements [begin, end), in groups that begin at its first element, wherever that
/// lies. So the same row is added up alike in any tensor.
struct RowGroups {
  std::int64_t begin = 0, end = 0;
  [[nodiscard]] PIPESIM_DEVICE constexpr std::int64_t count() const { return groups_of(end - begin); }
  [[nodiscard]] PIPESIM_DEVICE constexpr GroupPlace at(std::int64_t i) const {
    return group_at(i, end - begin).in_row(begin);
  }
};

/// 16 bytes at a multiple of 16.
struct alignas(16) PackedBits {
  std::uint32_t words[4];
};
PIPESIM_DEVICE inline PackedBits packed_bits_at(const std::byte* memory) {
  PackedBits bits;
  std::memcpy(&bits, __builtin_assume_aligned(memory, sizeof bits), sizeof bits);
  return bits;
}
PIPESIM_DEVICE inline void put_packed_bits(std::byte* memory, const PackedBits& bits) {
  std::memcpy(__builtin_assume_aligned(memory, sizeof bits), &bits, sizeof bits);
}

/// Returns the address of a group that is whole and begins at a multiple of 16 bytes, else null.
PIPESIM_DEVICE inline std::byte* packed_place(const Floats& tensor, const GroupPlace& at) {
  const std::int64_t width = tensor.stored == Stored::Float32 ? 4 : 2;
  auto* memory = static_cast<std::byte*>(tensor.memory) + at.first * width;
  const bool packed = at.count == FloatGroup::size && tensor.stored != Stored::Float64 &&
                      reinterpret_cast<std::uintptr_t>(memory) % sizeof(PackedBits) == 0;
  return packed ? memory : nullptr;
}

/// Reads a group. Elements past its last are 0.
PIPESIM_DEVICE inline FloatGroup read_group(const Floats& tensor, const GroupPlace& at) {
  FloatGroup group{};
  const std::byte* memory = packed_place(tensor, at);
  if (memory == nullptr) {
    for (std::int64_t k = 0; k < FloatGroup::size; ++k)
      if (k < at.count) group.values[k] = tensor[at.first + k];
    return group;
  }
  const PackedBits bits = packed_bits_at(memory);
  if (tensor.stored == Stored::Float32) {
    const PackedBits rest = packed_bits_at(memory + sizeof bits);
    for (int k = 0; k < 4; ++k) {
      group.values[k] = std::bit_cast<float>(bits.words[k]);
      group.values[4 + k] = std::bit_cast<float>(rest.words[k]);
    }
    return group;
  }
  const bool brain = tensor.stored == Stored::BFloat16;
  for (int k = 0; k < FloatGroup::size; ++k) {
    const auto narrow = static_cast<std::uint16_t>(bits.words[k / 2] >> 16 * (k % 2));
    group.values[k] = brain ? from_bfloat16(narrow) : from_float16(narrow);
  }
  return group;
}

/// Writes only the elements that the group has.
PIPESIM_DEVICE inline void write_group(const Floats& tensor, const GroupPlace& at, const FloatGroup& group) {
  std::byte* memory = packed_place(tensor, at);
  if (memory == nullptr) {
    for (std::int64_t k = 0; k < FloatGroup::size; ++k)
      if (k < at.count) tensor.set(at.first + k, group.values[k]);
    return;
  }
  PackedBits bits{};
  if (tensor.stored == Stored::Float32) {
    PackedBits rest{};
    for (int k = 0; k < 4; ++k) {
      bits.words[k] = std::bit_cast<std::uint32_t>(group.values[k]);
      rest.words[k] = std::bit_cast<std::uint32_t>(group.values[4 + k]);
    }
    put_packed_bits(memory + sizeof bits, rest);
  } else {
    const bool brain = tensor.stored == Stored::BFloat16;
    for (int k = 0; k < FloatGroup::size; ++k) {
      const float value = group.values[k];
      const std::uint32_t narrow = brain ? to_bfloat16(value) : to_float16(value);
      bits.words[k / 2] |= narrow << 16 * (k % 2);
    }
  }
  put_packed_bits(memory, bits);
}

}  // namespace pipesim::gpu
