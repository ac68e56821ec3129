#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "taskgraph/links/network_cuts.h"
#include "taskgraph/moving/layout.h"

namespace pipesim {

/// Lower bounds of how long moving tensors holds the links, whatever steps move them. They are far cheaper
/// than planning the steps, and they suffice to reject most of the changes that a search rejects.
///
/// The part of a wanted box that a device or node lacks must get in. The part that nobody else holds must get
/// out to those that want it. Where there are several addends, only the one that needs most traffic counts,
/// since sums may be formed on the way. Counts nothing where there are no Borders.
class LeastTraffic {
 public:
  explicit LeastTraffic(const CostModel& costs) : borders_(costs), bytes_(borders_.size(), 0) {}

  /// Adds the move from the sum of `terms` to `target`.
  void add(const LayoutTable& layouts, std::span<const LayoutId> terms, LayoutId target,
           std::int64_t element_bytes);
  void clear();
  /// The longest time for which the added moves are certain to hold a border.
  [[nodiscard]] Seconds longest() const;
  /// Whether some border is certain to be held for longer than `limit`, by the added moves and the present
  /// holds of its lanes (`loads`, by lane).
  [[nodiscard]] bool exceeds(std::span<const Nanoseconds> loads, Nanoseconds limit) const;

 private:
  /// A box of one addend, and the devices and nodes that have or want it, as ranges of Places::devices and
  /// nodes.
  struct Place {
    const Box* box = nullptr;
    std::int32_t addend = 0;
    std::uint32_t first_device = 0, num_devices = 0, first_node = 0, num_nodes = 0;
    std::int64_t from_device = 0, from_node = 0;  ///< elements that its only device, or node, must give
  };
  struct Places {
    std::vector<Place> list;  ///< ascending by addend and box
    std::vector<DeviceId> devices;
    std::vector<std::int32_t> nodes;
    [[nodiscard]] std::span<const DeviceId> devices_of(const Place& p) const {
      return std::span(devices).subspan(p.first_device, p.num_devices);
    }
    [[nodiscard]] std::span<const std::int32_t> nodes_of(const Place& p) const {
      return std::span(nodes).subspan(p.first_node, p.num_nodes);
    }
  };
  struct SharedPart {
    Place* part = nullptr;
    std::int64_t elements = 0;  ///< that are wanted, too
  };

  void list_places(const Layout& layout, bool by_addend, Places& out);
  void add_addend(std::span<Place> parts, bool disjoint_wants);
  void take_from(std::span<Place> parts, const Place& want, bool disjoint_wants);
  void add_wanted(bool disjoint_wants);

  Borders borders_;
  std::vector<std::int64_t> bytes_;  // by border
  std::vector<std::size_t> used_;    // borders with bytes
  // Scratch of add().
  Places wants_, parts_;
  std::vector<LayoutEntry> entries_;
  std::vector<SharedPart> shared_;
  std::vector<std::int64_t> device_lacks_, node_lacks_;  // elements, as wants_.devices and nodes
  std::vector<std::int64_t> most_, of_addend_;           // elements by border
};

}  // namespace pipesim
