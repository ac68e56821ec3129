#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <functional>

namespace pipesim {

/// A strong index into one kind of list: an Id of one Tag never mixes with an Id of another.
template <class Tag>
struct Id {
  std::int32_t value = -1;

  constexpr Id() = default;
  constexpr explicit Id(std::int32_t v) : value(v) {}
  constexpr explicit Id(std::size_t v) : value(static_cast<std::int32_t>(v)) {}

  [[nodiscard]] constexpr std::size_t index() const { return static_cast<std::size_t>(value); }
  [[nodiscard]] constexpr bool valid() const { return value >= 0; }
  constexpr auto operator<=>(const Id&) const = default;
};

using TaskId = Id<struct TaskTag>;  ///< a task of a TaskDag
using LaneId = Id<struct LaneTag>;  ///< something that does one thing at a time: a device's compute, a link
using DeviceId = Id<struct DeviceTag>;      ///< a device of a topology
using TensorId = Id<struct TensorTag>;      ///< a tensor of an operator graph
using OperatorId = Id<struct OperatorTag>;  ///< an operator of an operator graph

}  // namespace pipesim

template <class Tag>
struct std::hash<pipesim::Id<Tag>> {
  std::size_t operator()(pipesim::Id<Tag> id) const noexcept { return std::hash<std::int32_t>{}(id.value); }
};
