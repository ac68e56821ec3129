#include "taskgraph/moving/layout.h"

#include <algorithm>
#include <map>
#include <utility>

namespace pipesim {
namespace {

// The addends that are used, ascending.
std::vector<std::int32_t> addends_in(const std::vector<Layout::Piece>& pieces) {
  std::vector<std::int32_t> used;
  used.reserve(pieces.size());
  for (const Layout::Piece& p : pieces) {
    if (used.empty() || used.back() != p.addend) used.push_back(p.addend);
  }
  std::sort(used.begin(), used.end());
  used.erase(std::unique(used.begin(), used.end()), used.end());
  return used;
}

// The boxes that occur, ascending. Copies of one box often stand together.
std::vector<Box> boxes_in(const std::vector<Layout::Piece>& pieces) {
  std::vector<const Box*> all;
  all.reserve(pieces.size());
  for (const Layout::Piece& p : pieces) {
    if (all.empty() || *all.back() != p.box) all.push_back(&p.box);
  }
  const auto less = [](const Box* a, const Box* b) { return *a < *b; };
  if (!std::is_sorted(all.begin(), all.end(), less)) std::sort(all.begin(), all.end(), less);
  all.erase(std::unique(all.begin(), all.end(), [](const Box* a, const Box* b) { return *a == *b; }),
            all.end());
  std::vector<Box> boxes;
  boxes.reserve(all.size());
  for (const Box* b : all) boxes.push_back(*b);
  return boxes;
}

template <class T>
std::int32_t position(const std::vector<T>& sorted, const T& value) {
  return static_cast<std::int32_t>(std::lower_bound(sorted.begin(), sorted.end(), value) - sorted.begin());
}

}  // namespace

Layout::Layout(const std::vector<Piece>& pieces) : boxes_(boxes_in(pieces)) {
  const std::vector<std::int32_t> addends = addends_in(pieces);
  num_addends_ = static_cast<std::int32_t>(addends.size());
  entries_.reserve(pieces.size());
  for (const Piece& p : pieces)
    entries_.push_back({p.device, position(boxes_, p.box), position(addends, p.addend)});
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

bool Layout::holds(DeviceId device, const Box& box) const {
  return std::ranges::any_of(entries_on(device), [&](const LayoutEntry& e) { return this->box(e) == box; });
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
  const tbb::spin_mutex::scoped_lock lock(mutex_);
  for (auto [it, end] = by_hash_.equal_range(h); it != end; ++it) {
    if (layouts_[it->second.index()] == layout) return it->second;
  }
  const LayoutId id(layouts_.size());
  bytes_ += layout.bytes();
  layouts_.push_back(std::move(layout));
  by_hash_.emplace(h, id);
  return id;
}

Bytes LayoutTable::bytes() const {
  const tbb::spin_mutex::scoped_lock lock(mutex_);
  return bytes_;
}

void LayoutTable::clear() {
  layouts_.clear();
  by_hash_.clear();
  bytes_ = Bytes(0);
}

namespace {

// An addend of a term, and where it lies.
struct Addend {
  std::size_t term = 0;
  std::int32_t number = 0;
  std::vector<std::pair<DeviceId, const Box*>> places;  // ascending
};

std::strong_ordering order_of(const Addend& a, const Addend& b) {
  return std::lexicographical_compare_three_way(a.places.begin(), a.places.end(), b.places.begin(),
                                                b.places.end(), [](const auto& x, const auto& y) {
                                                  const auto device = x.first <=> y.first;
                                                  return device != 0 ? device : *x.second <=> *y.second;
                                                });
}

// Entries are sorted, so places are.
std::vector<Addend> addends_of(std::span<const Layout* const> terms) {
  std::vector<Addend> addends;
  for (std::size_t t = 0; t < terms.size(); ++t) {
    const std::size_t first = addends.size();
    for (std::int32_t a = 0; a < terms[t]->num_addends(); ++a) addends.push_back({t, a, {}});
    for (const LayoutEntry& e : terms[t]->entries())
      addends[first + static_cast<std::size_t>(e.addend)].places.emplace_back(e.device, &terms[t]->box(e));
  }
  return addends;
}

}  // namespace

Layout sum_of(std::span<const Layout* const> terms, std::vector<std::vector<std::int32_t>>* merged_into) {
  std::vector<Addend> addends = addends_of(terms);
  std::sort(addends.begin(), addends.end(),
            [](const Addend& a, const Addend& b) { return order_of(a, b) < 0; });
  if (merged_into) {
    merged_into->assign(terms.size(), {});
    for (std::size_t t = 0; t < terms.size(); ++t)
      (*merged_into)[t].resize(static_cast<std::size_t>(terms[t]->num_addends()));
  }
  std::vector<Layout::Piece> pieces;
  std::int32_t number = -1;
  for (std::size_t i = 0; i < addends.size(); ++i) {
    if (i == 0 || order_of(addends[i - 1], addends[i]) != 0) {
      ++number;
      for (const auto& [device, box] : addends[i].places) pieces.push_back({device, *box, number});
    }
    if (merged_into) (*merged_into)[addends[i].term][static_cast<std::size_t>(addends[i].number)] = number;
  }
  return Layout(pieces);
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
  return Layout(pieces);
}

}  // namespace pipesim
