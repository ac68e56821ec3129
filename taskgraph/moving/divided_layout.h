#pragma once

#include <cstdint>

#include "taskgraph/moving/layout.h"

namespace pipesim {

/// A weight's home, divided among the devices that copy a box of it. Those that make the same addends of its
/// gradient stay copies of each other, and count as one here. Groups of `group` neighbours (0: all of them)
/// cut the box into equal parts, one each, along its first dimension that can be cut so; where there is none,
/// into fewer parts. `group` is lowered to the nearest divisor of the number of copies. Where copies are in
/// several stages of a pipeline (`stages`, on devices of their own), each stage has all parts among its own.
///
/// `home`: the weight's home. `gradient`: the sum of the gradients that its uses make.
Layout divided(const Layout& home, const Layout& gradient, std::int32_t group, std::int32_t stages = 1);

/// What the devices of `target` hold of a layout, if that is enough for `target`; else all of it.
Layout held_there(const Layout& layout, const Layout& target);

}  // namespace pipesim
