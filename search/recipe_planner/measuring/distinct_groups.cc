#include "search/recipe_planner/measuring/distinct_groups.h"

#include <algorithm>
#include <functional>
#include <map>
#include <set>
#include <span>
#include <utility>

#include "topologies/alike_nodes.h"

namespace pipesim {
namespace {

using Shape = std::vector<double>;

class GroupShapes {
 public:
  GroupShapes(std::int64_t groups, const Topology& topology)
      : topology_(topology),
        size_(topology.num_devices() / static_cast<std::size_t>(groups)),
        class_of_(classes_of_nodes(topology)) {}

  [[nodiscard]] std::vector<DeviceId> devices_of(std::int64_t group) const {
    std::vector<DeviceId> devices;
    for (std::size_t i = 0; i < size_; ++i) devices.emplace_back(static_cast<std::size_t>(group) * size_ + i);
    return devices;
  }

  // Groups of one node, or of few devices, by routes; others by their nodes.
  [[nodiscard]] Shape shape_of(const std::vector<DeviceId>& devices) const {
    constexpr std::size_t kFew = 16;
    return devices.size() <= kFew ? routes_between(devices) : places_of(devices);
  }

  // Nodes are numbered as devices meet them.
  [[nodiscard]] Shape places_of(const std::vector<DeviceId>& devices) const {
    Shape shape;
    std::map<std::int32_t, std::size_t> nodes;
    for (const DeviceId d : devices) {
      const std::int32_t node = topology_.device(d).node;
      const auto [number, is_new] = nodes.try_emplace(node, nodes.size());
      if (is_new) shape.push_back(class_of_[static_cast<std::size_t>(node)]);
      shape.push_back(static_cast<double>(number->second));
      const std::span<const DeviceId> all = topology_.devices_of_node(node);
      shape.push_back(static_cast<double>(std::ranges::find(all, d) - all.begin()));
    }
    return shape;
  }

 private:
  // Lanes are numbered as routes meet them.
  [[nodiscard]] Shape routes_between(const std::vector<DeviceId>& devices) const {
    Shape shape;
    std::map<LaneId, std::size_t> lanes;
    for (const DeviceId from : devices) {
      shape.push_back(topology_.device(from).kind);
      for (const DeviceId to : devices) {
        if (from == to) continue;
        const Route route = topology_.route(from, to);
        shape.push_back(topology_.distance(from, to));
        shape.push_back(route.latency.value);
        for (const LaneId lane : route.lanes) {
          shape.push_back(static_cast<double>(lanes.try_emplace(lane, lanes.size()).first->second));
          shape.push_back(topology_.lane_bandwidth(lane).value);
        }
      }
    }
    return shape;
  }

  const Topology& topology_;
  std::size_t size_;
  std::vector<std::int32_t> class_of_;
};

// Returns the numbers below `all` whose devices have a shape that no lower number's devices have.
template <class DevicesOf>
std::vector<std::int64_t> first_of_each(std::int64_t all, const GroupShapes& shapes, DevicesOf devices_of) {
  if (all == 1) return {0};
  std::vector<std::int64_t> distinct;
  std::set<Shape> known;
  for (std::int64_t g = 0; g < all; ++g) {
    if (known.insert(shapes.shape_of(devices_of(g))).second) distinct.push_back(g);
  }
  return distinct;
}

}  // namespace

std::vector<std::int64_t> distinct_groups(std::int64_t groups, const Topology& topology) {
  const GroupShapes shapes(groups, topology);
  return first_of_each(groups, shapes, [&](std::int64_t g) { return shapes.devices_of(g); });
}

std::vector<std::int64_t> distinct_pairs(std::int64_t groups, const Topology& topology) {
  const GroupShapes shapes(groups, topology);
  return first_of_each(groups, shapes, [&](std::int64_t g) {
    std::vector<DeviceId> devices = shapes.devices_of(g);
    const std::vector<DeviceId> mirrored = shapes.devices_of(groups - 1 - g);
    devices.insert(devices.end(), mirrored.begin(), mirrored.end());
    return devices;
  });
}

std::vector<std::size_t> classes_by_kinds(std::int64_t groups, const Topology& topology) {
  std::vector<std::int32_t> kinds;
  for (std::size_t d = 0; d < topology.num_devices(); ++d) kinds.push_back(topology.device(DeviceId(d)).kind);
  std::vector<std::size_t> class_of;
  if (std::ranges::adjacent_find(kinds, std::not_equal_to()) == kinds.end()) return class_of;
  const auto size = static_cast<std::ptrdiff_t>(kinds.size()) / groups;
  std::map<std::vector<std::int32_t>, std::size_t> known;
  for (std::int64_t g = 0; g < groups; ++g) {
    std::vector<std::int32_t> of_group(kinds.begin() + g * size, kinds.begin() + (g + 1) * size);
    class_of.push_back(known.try_emplace(std::move(of_group), known.size()).first->second);
  }
  return class_of;
}

NeighbourGroups neighbour_groups(std::int64_t groups, std::int64_t apart, const Topology& topology) {
  const GroupShapes shapes(groups, topology);
  NeighbourGroups made;
  std::map<Shape, std::size_t> known;
  for (std::int64_t g = 0; g < groups; ++g) {
    std::vector<DeviceId> devices = shapes.devices_of(g);
    const std::vector<DeviceId> behind = shapes.devices_of((g + apart) % groups);
    devices.insert(devices.end(), behind.begin(), behind.end());
    const auto [at, is_new] = known.try_emplace(shapes.places_of(devices), known.size());
    if (is_new) made.distinct.push_back(g);
    made.class_of.push_back(at->second);
  }
  return made;
}

}  // namespace pipesim
