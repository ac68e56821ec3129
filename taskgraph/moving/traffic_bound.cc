#include "taskgraph/moving/traffic_bound.h"

#include <algorithm>
#include <tuple>

namespace pipesim {
namespace {

template <class Place>
bool disjoint(std::span<Place> places) {
  for (std::size_t i = 0; i < places.size(); ++i) {
    for (std::size_t j = i + 1; j < places.size(); ++j) {
      if (begins_behind(*places[j].box, *places[i].box)) break;
      if (places[j].box->meets(*places[i].box)) return false;
    }
  }
  return true;
}

template <class T>
bool contains(std::span<const T> list, T value) {
  return std::ranges::find(list, value) != list.end();
}

// Distinct elements add up; of elements that may be the same, the larger part counts.
void join(std::int64_t& sum, std::int64_t elements, bool distinct) {
  sum = distinct ? sum + elements : std::max(sum, elements);
}

}  // namespace

void LeastTraffic::clear() {
  for (const std::size_t border : used_) bytes_[border] = 0;
  used_.clear();
}

void LeastTraffic::list_places(const Layout& layout, bool by_addend, Places& out) {
  entries_.assign(layout.entries().begin(), layout.entries().end());
  if (!by_addend) {
    for (LayoutEntry& e : entries_) e.addend = 0;
  }
  std::ranges::sort(entries_, {}, [](const LayoutEntry& e) { return std::tuple(e.addend, e.box, e.device); });
  out.list.clear();
  out.devices.clear();
  out.nodes.clear();
  const LayoutEntry* last = nullptr;
  for (const LayoutEntry& e : entries_) {
    const bool same_place = last && last->addend == e.addend && last->box == e.box;
    if (same_place && last->device == e.device) continue;
    last = &e;
    if (!same_place) {
      out.list.push_back({.box = &layout.box(e),
                          .addend = e.addend,
                          .first_device = static_cast<std::uint32_t>(out.devices.size()),
                          .first_node = static_cast<std::uint32_t>(out.nodes.size())});
    }
    Place& place = out.list.back();
    out.devices.push_back(e.device);
    ++place.num_devices;
    const std::int32_t node = borders_.node(e.device);
    if (contains(out.nodes_of(place), node)) continue;
    out.nodes.push_back(node);
    ++place.num_nodes;
  }
}

// What the devices and nodes that want a box lack of it, and what the only holders of its parts must give.
void LeastTraffic::take_from(std::span<Place> parts, const Place& want, bool disjoint_wants) {
  shared_.clear();
  std::int64_t all = 0;
  for (Place& part : parts) {
    if (begins_behind(*part.box, *want.box)) break;
    const std::int64_t elements = shared_elements(*part.box, *want.box);
    if (elements > 0) shared_.push_back({&part, elements});
    all += elements;
  }
  const auto lacks = [&](auto holds, std::int64_t& most) {
    std::int64_t lacking = all;
    for (const SharedPart& s : shared_) lacking -= holds(*s.part) ? s.elements : 0;
    most = std::max(most, lacking);
  };
  for (std::uint32_t i = want.first_device; i < want.first_device + want.num_devices; ++i) {
    const DeviceId device = wants_.devices[i];
    lacks([&](const Place& p) { return contains(parts_.devices_of(p), device); }, device_lacks_[i]);
  }
  for (std::uint32_t i = want.first_node; i < want.first_node + want.num_nodes; ++i) {
    const std::int32_t node = wants_.nodes[i];
    lacks([&](const Place& p) { return contains(parts_.nodes_of(p), node); }, node_lacks_[i]);
  }
  for (const SharedPart& s : shared_) {
    Place& p = *s.part;
    const bool other_device = want.num_devices > 1 || parts_.devices_of(p)[0] != wants_.devices_of(want)[0];
    const bool other_node = want.num_nodes > 1 || parts_.nodes_of(p)[0] != wants_.nodes_of(want)[0];
    if (p.num_devices == 1 && other_device) join(p.from_device, s.elements, disjoint_wants);
    if (p.num_nodes == 1 && other_node) join(p.from_node, s.elements, disjoint_wants);
  }
}

void LeastTraffic::add_addend(std::span<Place> parts, bool disjoint_wants) {
  if (!disjoint(parts)) return;
  for (const Place& want : wants_.list) take_from(parts, want, disjoint_wants);
  of_addend_.assign(borders_.size(), 0);
  for (const Place& p : parts) {
    of_addend_[borders_.into(parts_.devices_of(p)[0]) + 1] += p.from_device;
    of_addend_[borders_.into_node(parts_.nodes_of(p)[0]) + 1] += p.from_node;
  }
  for (std::size_t b = 0; b < most_.size(); ++b) most_[b] = std::max(most_[b], of_addend_[b]);
}

void LeastTraffic::add_wanted(bool disjoint_wants) {
  for (std::size_t i = 0; i < wants_.devices.size(); ++i)
    join(most_[borders_.into(wants_.devices[i])], device_lacks_[i], disjoint_wants);
  for (std::size_t i = 0; i < wants_.nodes.size(); ++i)
    join(most_[borders_.into_node(wants_.nodes[i])], node_lacks_[i], disjoint_wants);
}

void LeastTraffic::add(const LayoutTable& layouts, std::span<const LayoutId> terms, LayoutId target,
                       std::int64_t element_bytes) {
  if (borders_.empty()) return;
  list_places(layouts[target], false, wants_);
  const bool disjoint_wants = disjoint(std::span(wants_.list));
  device_lacks_.assign(wants_.devices.size(), 0);
  node_lacks_.assign(wants_.nodes.size(), 0);
  most_.assign(borders_.size(), 0);
  for (const LayoutId term : terms) {
    list_places(layouts[term], true, parts_);
    const std::span<Place> parts = parts_.list;
    for (std::size_t i = 0, end = 0; i < parts.size(); i = end) {
      while (end < parts.size() && parts[end].addend == parts[i].addend) ++end;
      add_addend(parts.subspan(i, end - i), disjoint_wants);
    }
  }
  add_wanted(disjoint_wants);
  for (std::size_t b = 0; b < most_.size(); ++b) {
    if (most_[b] == 0) continue;
    if (bytes_[b] == 0) used_.push_back(b);
    bytes_[b] += most_[b] * element_bytes;
  }
}

Seconds LeastTraffic::longest() const {
  Seconds longest;
  for (const std::size_t b : used_) longest = std::max(longest, borders_.least_time(b, bytes_[b]));
  return longest;
}

bool LeastTraffic::exceeds(std::span<const Nanoseconds> loads, Nanoseconds limit) const {
  // Holds are rounded to nanoseconds, one for each task and lane, and bandwidths are not exact.
  constexpr double kRoundings = 10'000, kInexact = 1e-6;
  const double longest = static_cast<double>(limit) * (1 + kInexact) + kRoundings;
  return std::ranges::any_of(used_, [&](std::size_t b) {
    const Borders::Border& border = borders_[b];
    auto bytes = static_cast<double>(bytes_[b]);
    for (const Borders::Lane& l : border.lanes)
      bytes += static_cast<double>(loads[l.lane.index()]) * l.bandwidth;
    return bytes > longest * border.bandwidth;
  });
}

}  // namespace pipesim
