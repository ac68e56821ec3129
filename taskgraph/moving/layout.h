#pragma once

#include <tbb/concurrent_vector.h>
#include <tbb/spin_mutex.h>

#include <algorithm>
#include <cstdint>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "models/box.h"
#include "sim/base/allocated_bytes.h"
#include "sim/base/ids.h"
#include "sim/base/small_vector.h"
#include "sim/base/units.h"

namespace pipesim {

/// One piece of a tensor on one device.
struct LayoutEntry {
  DeviceId device;
  std::int32_t box = 0;     ///< index into Layout::boxes()
  std::int32_t addend = 0;  ///< entries of one addend agree where they overlap; distinct addends are summed
  auto operator<=>(const LayoutEntry&) const = default;
};

/// Where a tensor is. value(e) = Σ of the values at e of the distinct addends whose boxes cover e; an element
/// that no addend covers is 0 (gradients only). Complete: every element is covered by exactly one addend.
/// Entries are sorted by (device, box, addend) and boxes ascend, so equal layouts have equal content.
class Layout {
 public:
  Layout() = default;
  struct Piece {
    DeviceId device;
    Box box;
    std::int32_t addend = 0;
  };
  explicit Layout(const std::vector<Piece>& pieces);

  [[nodiscard]] std::span<const LayoutEntry> entries() const { return entries_; }
  [[nodiscard]] std::span<const Box> boxes() const { return boxes_; }
  [[nodiscard]] const Box& box(const LayoutEntry& e) const { return boxes_[static_cast<std::size_t>(e.box)]; }
  [[nodiscard]] std::int32_t num_addends() const { return num_addends_; }  ///< addends are numbered from 0
  [[nodiscard]] bool empty() const { return entries_.empty(); }
  [[nodiscard]] Bytes bytes() const {
    return Bytes(static_cast<std::int64_t>(sizeof *this + allocated_bytes(boxes_, entries_)));
  }
  /// Elements stored on the device, copies and addends each counted.
  [[nodiscard]] std::int64_t elements_on(DeviceId device) const;
  /// Whether exactly this box is an entry of the device.
  [[nodiscard]] bool holds(DeviceId device, const Box& box) const;
  /// The device's entries; empty when it has none.
  [[nodiscard]] std::span<const LayoutEntry> entries_on(DeviceId device) const;
  bool operator==(const Layout&) const = default;

 private:
  std::vector<Box> boxes_;
  std::vector<LayoutEntry> entries_;
  std::int32_t num_addends_ = 0;
};

std::uint64_t hash_of(const Layout& layout);

using LayoutId = Id<struct LayoutTag>;
using LayoutIds = SmallVector<LayoutId, 8>;

/// Appends it unless it is there.
inline void add_distinct(LayoutIds& layouts, LayoutId layout) {
  if (std::find(layouts.begin(), layouts.end(), layout) == layouts.end()) layouts.push_back(layout);
}

/// Gives equal layouts equal ids, so that comparing layouts, and caching by them, costs O(1). Any number of
/// threads may use it. Call clear() only while no thread uses it.
class LayoutTable {
 public:
  LayoutId intern(Layout layout);
  [[nodiscard]] const Layout& operator[](LayoutId id) const { return layouts_[id.index()]; }
  [[nodiscard]] std::size_t size() const { return layouts_.size(); }
  [[nodiscard]] Bytes bytes() const;
  void clear();

 private:
  tbb::concurrent_vector<Layout> layouts_;  // stable addresses
  mutable tbb::spin_mutex mutex_;           // for what follows
  std::unordered_multimap<std::uint64_t, LayoutId> by_hash_;
  Bytes bytes_;
};

/// The sum of several terms, such as the gradients that the consumers of a tensor compute. Addends of
/// different terms are kept apart. Then addends with the same set of (device, box) are added where they lie,
/// which costs nothing (rule M). `merged_into`, if given: [term][addend] → the addend of the sum that
/// contains it.
Layout sum_of(std::span<const Layout* const> terms,
              std::vector<std::vector<std::int32_t>>* merged_into = nullptr);

/// Every piece on every device that `layouts` hold, without pieces inside another piece of the same device.
/// From the layouts that the uses of a weight need, this gives the weight's home.
Layout union_of(std::span<const Layout* const> layouts);

}  // namespace pipesim
