#include "taskgraph/moving/moved_data.h"

#include <fmt/format.h>

#include <algorithm>

#include "sim/base/errors.h"

namespace pipesim {
namespace {

using Addends = std::vector<std::int32_t>;

bool subset(const Addends& small, const Addends& large) {
  return std::includes(large.begin(), large.end(), small.begin(), small.end());
}

// `box` cut at every boundary of the fragments.
std::vector<Box> cut_at(const Box& box, std::span<const Fragment> fragments,
                        std::span<const std::int32_t> candidates) {
  return cut_at_edges(box, [&](auto visit) {
    for (const std::int32_t c : candidates) visit(fragments[static_cast<std::size_t>(c)].box);
  });
}

}  // namespace

bool Assembly::is_fragment(std::span<const Fragment> fragments) const {
  return parts.size() == 1 && parts[0].region == box &&
         fragments[static_cast<std::size_t>(parts[0].fragment)].box == box;
}

DataMovement::DataMovement(const Layout& from, const Layout& to, const Redistribution& redistribution)
    : from_(from), redistribution_(redistribution) {
  for (std::int32_t a = 0; a < from.num_addends(); ++a) {
    all_.push_back(a);
    if (!redistribution.peeled[static_cast<std::size_t>(a)]) unpeeled_.push_back(a);
  }
  std::size_t devices = 0;
  const auto reach = [&](DeviceId d) { devices = std::max(devices, d.index() + 1); };
  for (const LayoutEntry& e : from.entries()) reach(e.device);
  for (const LayoutEntry& e : to.entries()) reach(e.device);
  for (const RedistributionStep& s : redistribution.steps)
    std::for_each(s.group.begin(), s.group.end(), reach);
  fragments_.resize(devices);
  for (std::size_t e = 0; e < from.entries().size(); ++e) {
    const LayoutEntry& entry = from.entries()[e];
    fragments_[entry.device.index()].push_back(
        {from.box(entry), {entry.addend}, -1, static_cast<std::int32_t>(e)});
  }
  for (std::size_t s = 0; s < redistribution.steps.size(); ++s) {
    for (std::size_t rank = 0; rank < redistribution.steps[s].group.size(); ++rank) {
      std::int32_t index = 0;
      for (const Box& box : got(s, rank)) {
        fragments_[redistribution.steps[s].group[rank].index()].push_back(
            {box, addends_got(s, index), static_cast<std::int32_t>(s), index});
        ++index;
      }
    }
  }
}

std::span<const Fragment> DataMovement::fragments(DeviceId device) const {
  if (device.index() >= fragments_.size()) return {};
  return fragments_[device.index()];
}

std::vector<Box> DataMovement::given_boxes(std::size_t step, std::size_t rank) const {
  const RedistributionStep& s = redistribution_.steps[step];
  std::vector<Box> boxes;
  if (s.kind == Collective::Send) {
    for (const auto& piece : s.gives) {
      if (rank == 0) boxes.push_back(*piece);
    }
  } else if (s.kind == Collective::ReduceScatter || s.kind == Collective::AllToAll) {
    for (const auto& block : s.gets) boxes.push_back(*intersection(*s.gives[rank], *block));
  } else if (s.gives[rank]) {
    boxes.push_back(*s.gives[rank]);
  }
  return boxes;
}

std::vector<Box> DataMovement::got(std::size_t step, std::size_t rank) const {
  const RedistributionStep& s = redistribution_.steps[step];
  std::vector<Box> boxes;
  if (s.kind == Collective::Send) {
    for (const auto& piece : s.gives) {
      if (rank == 1) boxes.push_back(*piece);
    }
  } else if (s.kind == Collective::AllGather || s.kind == Collective::AllToAll) {
    for (const auto& block : s.gives) boxes.push_back(*intersection(*block, *s.gets[rank]));
  } else if (s.gets[rank]) {
    boxes.push_back(*s.gets[rank]);
  }
  return boxes;
}

std::vector<std::int32_t> DataMovement::addends_given(std::size_t step, std::size_t rank) const {
  const RedistributionStep& s = redistribution_.steps[step];
  const std::int32_t addend = s.gives_addend[rank];
  if (addend == RedistributionStep::all_addends) return unpeeled_;
  if (addend != RedistributionStep::brought_addends) return {addend};
  Addends brought;
  for (const Fragment& f : fragments(s.group[rank])) {
    if (f.step < 0) continue;
    const RedistributionStep& by = redistribution_.steps[static_cast<std::size_t>(f.step)];
    if (by.component == s.component && by.round < s.round && f.box.meets(*s.gives[rank]))
      brought.insert(brought.end(), f.addends.begin(), f.addends.end());
  }
  std::sort(brought.begin(), brought.end());
  brought.erase(std::unique(brought.begin(), brought.end()), brought.end());
  return brought;
}

// Blocks of an all-gather and of an all-to-all are as they were given.
std::vector<std::int32_t> DataMovement::addends_got(std::size_t step, std::int32_t block) const {
  const RedistributionStep& s = redistribution_.steps[step];
  if (s.kind == Collective::AllGather || s.kind == Collective::AllToAll)
    return addends_given(step, static_cast<std::size_t>(block));
  Addends sum;
  for (std::size_t rank = 0; rank < s.gives_addend.size(); ++rank) {
    if (s.kind != Collective::Send && !s.gives[rank]) continue;
    const Addends more = addends_given(step, rank);
    sum.insert(sum.end(), more.begin(), more.end());
  }
  std::sort(sum.begin(), sum.end());
  sum.erase(std::unique(sum.begin(), sum.end()), sum.end());
  return sum;
}

std::vector<Assembly> DataMovement::given(std::size_t step, std::size_t rank) const {
  const RedistributionStep& s = redistribution_.steps[step];
  std::vector<Assembly> blocks;
  for (const Box& box : given_boxes(step, rank))
    blocks.push_back(assemble(s.group[rank], box, addends_given(step, rank), s.round));
  return blocks;
}

Assembly DataMovement::result(DeviceId device, const Box& want) const {
  return assemble(device, want, all_, INT32_MAX);
}

// Addends that have a value somewhere in the box.
std::vector<std::int32_t> DataMovement::present(const Box& box,
                                                const std::vector<std::int32_t>& addends) const {
  Addends found;
  for (const LayoutEntry& e : from_.entries()) {
    if (intersection(from_.box(e), box) && std::binary_search(addends.begin(), addends.end(), e.addend))
      found.push_back(e.addend);
  }
  std::sort(found.begin(), found.end());
  found.erase(std::unique(found.begin(), found.end()), found.end());
  return found;
}

Assembly DataMovement::assemble(DeviceId device, const Box& box, std::vector<std::int32_t> addends,
                                std::int32_t before_round) const {
  const std::span<const Fragment> held = fragments(device);
  std::vector<std::int32_t> candidates;
  for (std::size_t i = 0; i < held.size(); ++i) {
    const bool early = held[i].step < 0 ||
                       redistribution_.steps[static_cast<std::size_t>(held[i].step)].round < before_round;
    if (early && subset(held[i].addends, addends) && intersection(held[i].box, box))
      candidates.push_back(static_cast<std::int32_t>(i));
  }
  // Sums that were formed already come first; then what needs no copy; then in the order of addends.
  std::stable_sort(candidates.begin(), candidates.end(), [&](std::int32_t a, std::int32_t b) {
    const Fragment &x = held[static_cast<std::size_t>(a)], &y = held[static_cast<std::size_t>(b)];
    if (x.addends.size() != y.addends.size()) return x.addends.size() > y.addends.size();
    if (x.addends != y.addends) return x.addends < y.addends;
    return box.inside(x.box) && !box.inside(y.box);
  });
  // Fragments that hold the whole box and all that is wanted make cutting needless.
  std::vector<std::int32_t> enough;
  Addends rest = present(box, addends);
  for (const std::int32_t c : candidates) {
    const Fragment& f = held[static_cast<std::size_t>(c)];
    Addends useful;
    std::set_intersection(f.addends.begin(), f.addends.end(), rest.begin(), rest.end(),
                          std::back_inserter(useful));
    if (useful.empty() || useful.size() != present(box, f.addends).size() || !box.inside(f.box)) continue;
    enough.push_back(c);
    std::erase_if(rest,
                  [&](std::int32_t a) { return std::binary_search(f.addends.begin(), f.addends.end(), a); });
  }
  Assembly out{box, {}, false};
  if (rest.empty()) {
    add_parts(out, device, box, std::move(addends), enough);
    return out;
  }
  for (const Box& atom : cut_at(box, held, candidates)) add_parts(out, device, atom, addends, candidates);
  return out;
}

void DataMovement::add_parts(Assembly& out, DeviceId device, const Box& atom,
                             std::vector<std::int32_t> addends,
                             std::span<const std::int32_t> candidates) const {
  const std::span<const Fragment> held = fragments(device);
  bool written = false;
  for (const std::int32_t c : candidates) {
    const Fragment& f = held[static_cast<std::size_t>(c)];
    if (!atom.inside(f.box) || !subset(f.addends, addends)) continue;
    out.parts.push_back({c, atom, written});
    written = true;
    std::erase_if(addends,
                  [&](std::int32_t a) { return std::binary_search(f.addends.begin(), f.addends.end(), a); });
  }
  out.gaps |= !written;
  if (const Addends missing = present(atom, addends); !missing.empty()) {
    throw InternalError(
        fmt::format("addend {} of {} never reaches device {}", missing.front(), atom.str(), device.value));
  }
}

}  // namespace pipesim
