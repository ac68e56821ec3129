#pragma once

#include <algorithm>
#include <numeric>
#include <string>
#include <vector>

#include "sim/base/rng.h"
#include "taskgraph/moving/layout.h"

namespace pipesim {

/// Range k of n even or uneven parts of `length`.
inline Range part_of(std::int64_t length, std::int64_t n, std::int64_t k) {
  return {k * length / n, (k + 1) * length / n};
}

/// `count` distinct devices below `devices`, in any order.
inline std::vector<DeviceId> random_devices(Rng& rng, std::size_t devices, std::size_t count) {
  std::vector<DeviceId> all;
  for (std::size_t d = 0; d < devices; ++d) all.emplace_back(d);
  for (std::size_t i = 0; i < count; ++i) std::swap(all[i], all[i + rng.below(devices - i)]);
  all.resize(count);
  return all;
}

/// A tensor cut along a grid, each piece in copies and as several addends.
struct GridLayout {
  std::vector<std::int64_t> shape, degrees;
  std::int64_t copies = 1, addends = 1;
  std::vector<DeviceId> devices;  ///< the grid slowest, then copies, then addends

  [[nodiscard]] std::vector<Layout::Piece> pieces() const {
    std::vector<Layout::Piece> result;
    for (std::size_t i = 0; i < devices.size(); ++i) {
      auto rest = static_cast<std::int64_t>(i);
      const auto addend = static_cast<std::int32_t>(rest % addends);
      rest /= addends * copies;
      Box box = Box::whole(shape);
      for (std::size_t d = shape.size(); d-- > 0;) {
        box[d] = part_of(shape[d], degrees[d], rest % degrees[d]);
        rest /= degrees[d];
      }
      result.push_back({devices[i], box, addend});
    }
    return result;
  }
};

inline std::vector<std::int64_t> random_shape(Rng& rng) {
  const std::vector<std::int64_t> sizes{1, 2, 3, 4, 6, 8};
  std::vector<std::int64_t> shape(rng.below(3) + (rng.below(8) == 0 ? 0 : 1));
  for (std::int64_t& s : shape) s = sizes[rng.below(sizes.size())];
  return shape;
}

/// At most 8 of the topology's devices; `partial`: several addends are possible.
inline GridLayout random_grid(Rng& rng, const std::vector<std::int64_t>& shape, std::size_t devices,
                              bool partial) {
  GridLayout grid{shape, std::vector<std::int64_t>(shape.size(), 1), 1, 1, {}};
  std::int64_t total = 1;
  const auto grow = [&](std::int64_t& degree, std::int64_t most) {
    const std::vector<std::int64_t> degrees{1, 1, 2, 2, 3, 4};
    const std::int64_t d = degrees[rng.below(degrees.size())];
    if (d <= most && total * d <= std::min<std::int64_t>(8, static_cast<std::int64_t>(devices)))
      degree = d, total *= d;
  };
  if (rng.below(3) == 0) grow(grid.copies, 8);
  if (partial && rng.below(2) == 0) grow(grid.addends, 8);
  for (std::size_t i = 0; i < shape.size(); ++i) grow(grid.degrees[i], shape[i]);
  grid.devices = random_devices(rng, devices, static_cast<std::size_t>(total));
  return grid;
}

}  // namespace pipesim
