#pragma once

#include <algorithm>
#include <numeric>
#include <string>
#include <vector>

#include "sim/base/rng.h"
#include "taskgraph/moving/redistribution.h"

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

/// Two grids without addends on devices of their own.
inline std::pair<GridLayout, GridLayout> random_grids_apart(Rng& rng, const std::vector<std::int64_t>& shape,
                                                            std::size_t devices) {
  GridLayout from = random_grid(rng, shape, devices / 2, false),
             to = random_grid(rng, shape, devices / 2, false);
  const std::vector<DeviceId> any = random_devices(rng, devices, devices);
  const bool in_order = rng.below(2) == 0;  // each on neighbours
  const auto place = [&](GridLayout& grid, std::size_t first) {
    for (DeviceId& d : grid.devices) d = in_order ? DeviceId(first + d.index()) : any[first + d.index()];
  };
  place(from, 0);
  place(to, devices / 2);
  return {from, to};
}

/// Devices as a mesh, the last axis fastest. An axis cuts a dimension of the tensor, copies it, or makes
/// addends of it.
struct MeshLayout {
  static constexpr int copy = -1, sum = -2;  ///< the role of an axis; else: the dimension that it cuts
  std::vector<std::int64_t> axes;
  std::vector<DeviceId> devices;
  std::vector<std::int64_t> shape{24, 24};

  /// `roles` by axis.
  [[nodiscard]] Layout layout(const std::vector<int>& roles) const {
    std::vector<Layout::Piece> pieces;
    for (std::size_t k = 0; k < devices.size(); ++k) pieces.push_back(piece(k, roles));
    return Layout(pieces);
  }

 private:
  [[nodiscard]] Layout::Piece piece(std::size_t k, const std::vector<int>& roles) const {
    std::vector<std::int64_t> position(shape.size(), 0), degree(shape.size(), 1);
    std::int32_t addend = 0;
    std::size_t rest = devices.size(), at = k;
    for (std::size_t a = 0; a < axes.size(); ++a) {
      rest /= static_cast<std::size_t>(axes[a]);
      const auto c = static_cast<std::int64_t>(at / rest);
      at %= rest;
      if (roles[a] == sum)
        addend = addend * static_cast<std::int32_t>(axes[a]) + static_cast<std::int32_t>(c);
      if (roles[a] < 0) continue;
      const auto d = static_cast<std::size_t>(roles[a]);
      position[d] = position[d] * axes[a] + c;
      degree[d] *= axes[a];
    }
    Box box = Box::whole(shape);
    for (std::size_t d = 0; d < shape.size(); ++d) box[d] = part_of(shape[d], degree[d], position[d]);
    return {devices[k], box, addend};
  }
};

/// A mesh of two or three axes whose roles change at random.
struct RandomMeshChange {
  MeshLayout mesh;
  std::vector<int> before, after;  ///< roles; nothing is an addend afterwards
};

inline RandomMeshChange random_mesh_change(Rng& rng, std::size_t devices) {
  const std::vector<std::vector<std::int64_t>> meshes{{2, 2}, {4, 2}, {2, 4}, {3, 2}, {2, 2, 2}, {2, 3, 2}};
  RandomMeshChange change;
  change.mesh.axes = meshes[rng.below(meshes.size())];
  change.mesh.shape = {12, 12, 4};
  std::size_t count = 1;
  for (const std::int64_t degree : change.mesh.axes) {
    count *= static_cast<std::size_t>(degree);
    change.before.push_back(static_cast<int>(rng.below(5)) - 2);
    change.after.push_back(static_cast<int>(rng.below(4)) - 1);
  }
  change.mesh.devices = random_devices(rng, devices, count);
  return change;
}

/// Whether an all-to-all comes before or behind another collective.
inline bool is_composed(const Redistribution& r) {
  const auto met = [&](Collective kind) {
    return std::ranges::any_of(r.steps, [&](const RedistributionStep& s) { return s.kind == kind; });
  };
  return met(Collective::AllToAll) && (met(Collective::ReduceScatter) || met(Collective::AllGather));
}

}  // namespace pipesim
