#include "taskgraph/layout.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <tuple>

namespace pipesim {
namespace {

// Renumbers addends 0, 1, … in ascending order.
void renumber_addends(std::vector<Layout::Piece>& pieces) {
  std::vector<std::int32_t> used;
  for (const Layout::Piece& p : pieces) used.push_back(p.addend);
  std::sort(used.begin(), used.end());
  used.erase(std::unique(used.begin(), used.end()), used.end());
  for (Layout::Piece& p : pieces) {
    p.addend = static_cast<std::int32_t>(std::lower_bound(used.begin(), used.end(), p.addend) - used.begin());
  }
}

}  // namespace

Layout::Layout(std::vector<Piece> pieces) {
  renumber_addends(pieces);
  for (const Piece& p : pieces) boxes_.push_back(p.box);
  std::sort(boxes_.begin(), boxes_.end());
  boxes_.erase(std::unique(boxes_.begin(), boxes_.end()), boxes_.end());
  for (const Piece& p : pieces) {
    const auto box = std::lower_bound(boxes_.begin(), boxes_.end(), p.box) - boxes_.begin();
    entries_.push_back({p.device, static_cast<std::int32_t>(box), p.addend});
    num_addends_ = std::max(num_addends_, p.addend + 1);
  }
  std::sort(entries_.begin(), entries_.end());
  entries_.erase(std::unique(entries_.begin(), entries_.end()), entries_.end());
}

std::span<const LayoutEntry> Layout::entries_on(DeviceId device) const {
  const auto first = std::lower_bound(entries_.begin(), entries_.end(), device,
                                      [](const LayoutEntry& e, DeviceId d) { return e.device < d; });
  auto last = first;
  while (last != entries_.end() && last->device == device) ++last;
  return {first, last};
}

std::int64_t Layout::elements_on(DeviceId device) const {
  std::int64_t elements = 0;
  for (const LayoutEntry& e : entries_on(device)) elements += box(e).elements();
  return elements;
}

std::uint64_t hash_of(const Layout& layout) {
  std::uint64_t h = 0x9E3779B97F4A7C15ULL + layout.entries().size();
  const auto mix = [&h](std::int64_t value) {
    h = (h ^ static_cast<std::uint64_t>(value)) * 0xFF51AFD7ED558CCDULL;
    h ^= h >> 32;
  };
  for (const Box& b : layout.boxes()) {
    for (std::size_t i = 0; i < b.dims(); ++i) mix(b[i].begin), mix(b[i].end);
  }
  for (const LayoutEntry& e : layout.entries()) mix(e.device.value), mix(e.box), mix(e.addend);
  return h;
}

LayoutId LayoutTable::intern(Layout layout) {
  const std::uint64_t h = hash_of(layout);
  for (auto [it, end] = by_hash_.equal_range(h); it != end; ++it) {
    if (layouts_[it->second.index()] == layout) return it->second;
  }
  const LayoutId id(layouts_.size());
  layouts_.push_back(std::move(layout));
  by_hash_.emplace(h, id);
  return id;
}

namespace {

using Place = std::pair<DeviceId, Box>;

// By addend: where it lies, ascending.
std::vector<std::vector<Place>> places_of(const Layout& layout) {
  std::vector<std::vector<Place>> places(static_cast<std::size_t>(layout.num_addends()));
  for (const LayoutEntry& e : layout.entries()) {
    places[static_cast<std::size_t>(e.addend)].emplace_back(e.device, layout.box(e));
  }
  for (std::vector<Place>& p : places) std::sort(p.begin(), p.end());
  return places;
}

}  // namespace

Layout sum_of(std::span<const Layout* const> terms, std::vector<std::vector<std::int32_t>>* merged_into) {
  std::vector<std::vector<std::vector<Place>>> places;  // [term][addend]
  std::map<std::vector<Place>, std::int32_t> merged;    // where an addend lies → its number
  for (const Layout* term : terms) {
    for (const std::vector<Place>& p : places.emplace_back(places_of(*term))) merged.emplace(p, 0);
  }
  std::vector<Layout::Piece> pieces;
  std::int32_t addend = 0;
  for (auto& [lies, number] : merged) {
    for (const auto& [device, box] : lies) pieces.push_back({device, box, addend});
    number = addend++;
  }
  if (merged_into) {
    merged_into->assign(terms.size(), {});
    for (std::size_t t = 0; t < terms.size(); ++t) {
      for (const std::vector<Place>& p : places[t]) (*merged_into)[t].push_back(merged.at(p));
    }
  }
  return Layout(std::move(pieces));
}

Layout union_of(std::span<const Layout* const> layouts) {
  std::map<DeviceId, std::vector<Box>> boxes;
  for (const Layout* layout : layouts) {
    for (const LayoutEntry& e : layout->entries()) boxes[e.device].push_back(layout->box(e));
  }
  std::vector<Layout::Piece> pieces;
  for (const auto& [device, held] : boxes) {
    for (std::size_t i = 0; i < held.size(); ++i) {
      bool covered = false;
      for (std::size_t j = 0; j < held.size() && !covered; ++j) {
        covered = j != i && held[i].inside(held[j]) && (held[i] != held[j] || j < i);
      }
      if (!covered) pieces.push_back({device, held[i], 0});
    }
  }
  return Layout(std::move(pieces));
}

}  // namespace pipesim
