#include "taskgraph/moving/divided_layout.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "taskgraph/moving/redistribution.h"

namespace pipesim {
namespace {

std::int64_t divisor_up_to(std::int64_t number, std::int64_t most) {
  std::int64_t divisor = std::clamp<std::int64_t>(most, 1, number);
  while (number % divisor != 0) --divisor;
  return divisor;
}

// Returns the first dimension that can be cut into equal parts.
std::optional<std::size_t> dimension_cut_by(const Box& box, std::int64_t parts) {
  for (std::size_t i = 0; i < box.dims(); ++i) {
    if (box[i].length() % parts == 0) return i;
  }
  return std::nullopt;
}

Box part_of(Box box, std::int64_t parts, std::int64_t number) {
  if (parts == 1) return box;
  Range& range = box[*dimension_cut_by(box, parts)];
  const std::int64_t length = range.length() / parts, begin = range.begin + number * length;
  range = {begin, begin + length};
  return box;
}

// The devices of a box, in sets of those that make the same addends, the set with the first device first.
std::vector<std::vector<DeviceId>> sets_of_copies(const std::vector<DeviceId>& devices, const Box& box,
                                                  const Layout& gradient) {
  std::map<std::set<std::int32_t>, std::vector<DeviceId>> by_addends;
  for (const DeviceId d : devices) {
    std::set<std::int32_t> addends;
    for (const LayoutEntry& e : gradient.entries_on(d)) {
      if (gradient.box(e).meets(box)) addends.insert(e.addend);
    }
    by_addends[addends].push_back(d);
  }
  std::vector<std::vector<DeviceId>> sets;
  const std::size_t copies = by_addends.begin()->second.size();
  const bool even =
      std::ranges::all_of(by_addends, [&](const auto& set) { return set.second.size() == copies; });
  if (even) {
    for (auto& [addends, set] : by_addends) sets.push_back(std::move(set));
  } else {
    for (const DeviceId d : devices) sets.push_back({d});
  }
  std::ranges::sort(sets);
  return sets;
}

}  // namespace

Layout divided(const Layout& home, const Layout& gradient, std::int32_t group, std::int32_t stages) {
  std::vector<std::vector<DeviceId>> holders(home.boxes().size());
  for (const LayoutEntry& e : home.entries()) holders[static_cast<std::size_t>(e.box)].push_back(e.device);
  std::vector<Layout::Piece> pieces;
  for (std::size_t b = 0; b < holders.size(); ++b) {
    const Box& box = home.boxes()[b];
    const std::vector<std::vector<DeviceId>> sets = sets_of_copies(holders[b], box, gradient);
    const auto all = static_cast<std::int64_t>(sets.size());
    const std::int64_t of_stage = std::max<std::int64_t>(1, all / stages);
    const std::int64_t together = divisor_up_to(all, group == 0 ? of_stage : group);
    std::int64_t parts = together;
    while (parts > 1 && (together % parts != 0 || !dimension_cut_by(box, parts))) --parts;
    for (std::size_t s = 0; s < sets.size(); ++s) {
      const Box part = part_of(box, parts, static_cast<std::int64_t>(s) % parts);
      for (const DeviceId d : sets[s]) pieces.push_back({d, part, 0});
    }
  }
  return Layout(pieces);
}

Layout held_there(const Layout& layout, const Layout& target) {
  std::vector<Layout::Piece> pieces;
  std::vector<Box> boxes;
  for (const LayoutEntry& e : layout.entries()) {
    if (target.entries_on(e.device).empty()) continue;
    pieces.push_back({e.device, layout.box(e), e.addend});
    boxes.push_back(layout.box(e));
  }
  std::ranges::sort(boxes);
  boxes.erase(std::unique(boxes.begin(), boxes.end()), boxes.end());
  const bool enough =
      std::ranges::all_of(target.boxes(), [&](const Box& box) { return covered(box, boxes); });
  return enough ? Layout(pieces) : layout;
}

}  // namespace pipesim
