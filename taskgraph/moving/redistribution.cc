#include "taskgraph/moving/redistribution.h"

#include <algorithm>
#include <limits>
#include <map>
#include <numeric>
#include <tuple>
#include <utility>

#include "sim/base/deadline.h"
#include "taskgraph/moving/box_cuts.h"
#include "taskgraph/moving/redistribution_between_meshes.h"
#include "taskgraph/moving/redistribution_candidates.h"

namespace pipesim {

std::span<const DeviceId> contributors(Collective kind, std::span<const DeviceId> group) {
  const bool one = kind == Collective::Send || kind == Collective::Broadcast;
  return group.first(one ? 1 : group.size());
}

std::span<const DeviceId> receivers(Collective kind, std::span<const DeviceId> group) {
  if (kind == Collective::Send || kind == Collective::Broadcast) return group.subspan(1);
  return group.first(kind == Collective::Reduce ? 1 : group.size());
}

std::int64_t Redistribution::elements_on_links() const {
  std::int64_t sum = 0;
  for (const RedistributionStep& s : steps) {
    sum += bytes_on_links(s.kind, static_cast<std::int64_t>(s.group.size()), Bytes(s.elements));
  }
  return sum;
}

bool Redistribution::has_sends() const {
  return std::any_of(steps.begin(), steps.end(), [](const auto& s) { return s.kind == Collective::Send; });
}

bool covered(const Box& box, std::span<const Box> held) {
  for (const Box& h : held) {
    const std::optional<Box> meet = intersection(box, h);
    if (!meet) continue;
    // Cut off what lies outside `meet`, one dimension after the other; each rest must be covered by somebody.
    Box rest = box;
    for (std::size_t i = 0; i < box.dims(); ++i) {
      Box below = rest, above = rest;
      below[i].end = (*meet)[i].begin;
      above[i].begin = (*meet)[i].end;
      if (!below.empty() && !covered(below, held)) return false;
      if (!above.empty() && !covered(above, held)) return false;
      rest[i] = (*meet)[i];
    }
    return true;
  }
  return false;
}

namespace {

// The entries hold all of `box` that belongs to an addend.
bool held(const Layout& layout, std::span<const LayoutEntry> entries, std::int32_t addend, const Box& box) {
  std::vector<Box> parts;
  for (const LayoutEntry& e : entries) {
    if (e.addend != addend || !layout.box(e).meets(box)) continue;
    if (box.inside(layout.box(e))) return true;
    parts.push_back(layout.box(e));
  }
  return !parts.empty() && covered(box, parts);
}

// Every destination holds all of the addend that lies in its box. `cover`: the boxes of the addend,
// ascending.
bool held_everywhere(const Layout& from, std::int32_t addend, std::span<const std::int32_t> cover,
                     const Layout& to) {
  const AscendingBoxes boxes(cover.size(), [&](std::size_t i) -> const Box& {
    return from.boxes()[static_cast<std::size_t>(cover[i])];
  });
  for (const LayoutEntry& want : to.entries()) {
    const auto entries = from.entries_on(want.device);
    const AscendingBoxes::Stretch near = boxes.near(to.box(want));
    for (const std::int32_t c : cover.subspan(near.begin, near.end - near.begin)) {
      const std::optional<Box> needed = intersection(from.boxes()[static_cast<std::size_t>(c)], to.box(want));
      if (needed && !held(from, entries, addend, *needed)) return false;
    }
  }
  return true;
}

}  // namespace

std::vector<bool> peeled_addends(const Layout& from, const Layout& to) {
  std::vector<std::pair<std::int32_t, std::int32_t>> places;  // (addend, box)
  places.reserve(from.entries().size());
  for (const LayoutEntry& e : from.entries()) places.emplace_back(e.addend, e.box);
  std::sort(places.begin(), places.end());
  places.erase(std::unique(places.begin(), places.end()), places.end());
  std::vector<bool> peeled(static_cast<std::size_t>(from.num_addends()));
  std::vector<std::int32_t> cover;
  for (std::size_t i = 0; i < places.size();) {
    const std::int32_t addend = places[i].first;
    cover.clear();
    for (; i < places.size() && places[i].first == addend; ++i) cover.push_back(places[i].second);
    peeled[static_cast<std::size_t>(addend)] = held_everywhere(from, addend, cover, to);
  }
  return peeled;
}

namespace {

std::vector<DeviceId> local_devices(const Layout& from, const Layout& to) {
  std::vector<DeviceId> devices;
  for (const LayoutEntry& want : to.entries()) {
    const auto held = from.entries_on(want.device);
    const bool uses = std::any_of(held.begin(), held.end(),
                                  [&](const LayoutEntry& e) { return from.box(e).meets(to.box(want)); });
    if (uses) devices.push_back(want.device);
  }
  devices.erase(std::unique(devices.begin(), devices.end()), devices.end());
  return devices;
}

class DisjointSets {
 public:
  explicit DisjointSets(std::size_t n) : parent_(n) {
    std::iota(parent_.begin(), parent_.end(), std::size_t{0});
  }
  std::size_t find(std::size_t x) {
    while (parent_[x] != x) x = parent_[x] = parent_[parent_[x]];
    return x;
  }
  void join(std::size_t a, std::size_t b) { parent_[find(a)] = find(b); }

 private:
  std::vector<std::size_t> parent_;
};

// Connected components of overlapping boxes, in the order of their first wanted box; those without a part
// need nothing. Parts with the same box stand together.
std::vector<RedistributionComponent> components(std::vector<RedistributionPart> parts,
                                                std::vector<RedistributionWant> wants) {
  DisjointSets sets(parts.size() + wants.size());
  const AscendingBoxes wanted(wants.size(), [&](std::size_t w) -> const Box& { return wants[w].box; });
  for (std::size_t p = 0; p < parts.size(); ++p) {
    if (p > 0 && parts[p].box == parts[p - 1].box) {
      sets.join(p, p - 1);
      continue;
    }
    const AscendingBoxes::Stretch near = wanted.near(parts[p].box);
    for (std::size_t w = near.begin; w < near.end; ++w) {
      if (parts[p].box.meets(wants[w].box)) sets.join(p, parts.size() + w);
    }
  }
  constexpr std::size_t kNone = SIZE_MAX;
  std::vector<std::size_t> number(parts.size() + wants.size(), kNone);  // by root
  std::vector<RedistributionComponent> result;
  for (std::size_t w = 0; w < wants.size(); ++w) {
    std::size_t& n = number[sets.find(parts.size() + w)];
    if (n == kNone) n = result.size(), result.emplace_back();
    result[n].wants.push_back(std::move(wants[w]));
  }
  for (std::size_t p = 0; p < parts.size(); ++p) {
    const std::size_t n = number[sets.find(p)];
    if (n != kNone) result[n].parts.push_back(std::move(parts[p]));
  }
  std::erase_if(result, [](const RedistributionComponent& c) { return c.parts.empty(); });
  return result;
}

std::vector<RedistributionPart> parts_of(const Layout& from, const std::vector<bool>& peeled) {
  std::vector<LayoutEntry> entries;
  entries.reserve(from.entries().size());
  for (const LayoutEntry& e : from.entries()) {
    if (!peeled[static_cast<std::size_t>(e.addend)]) entries.push_back(e);
  }
  std::sort(entries.begin(), entries.end(), [](const LayoutEntry& a, const LayoutEntry& b) {
    return std::tie(a.box, a.addend, a.device) < std::tie(b.box, b.addend, b.device);
  });
  std::vector<RedistributionPart> parts;
  for (std::size_t i = 0; i < entries.size(); ++i) {
    const LayoutEntry& e = entries[i];
    if (i == 0 || e.box != entries[i - 1].box || e.addend != entries[i - 1].addend)
      parts.push_back({from.box(e), e.addend, {}});
    parts.back().devices.push_back(e.device);
  }
  return parts;
}

std::vector<RedistributionWant> wants_of(const Layout& to) {
  std::vector<RedistributionWant> wants;
  for (const Box& b : to.boxes()) wants.push_back({b, {}});
  for (const LayoutEntry& e : to.entries())
    wants[static_cast<std::size_t>(e.box)].devices.push_back(e.device);
  return wants;
}

// By device, the steps of a component that bring it data; in the order of rounds.
using ArrivedSteps = std::map<DeviceId, std::vector<std::int32_t>>;

}  // namespace

void link_rounds(std::vector<RedistributionStep>& steps) {
  if (std::ranges::none_of(steps, [](const RedistributionStep& s) { return s.round > 0; })) return;
  ArrivedSteps arrived;
  for (std::size_t i = 0; i < steps.size(); ++i) {
    RedistributionStep& step = steps[i];
    stop_if_late();  // all pairs of a thousand devices may wait for a thousand messages each
    if (i == 0 || step.component != steps[i - 1].component) arrived.clear();
    for (const DeviceId d : contributors(step.kind, step.group)) {
      if (step.round == 0) break;
      const auto at = arrived.find(d);
      if (at == arrived.end()) continue;
      for (const std::int32_t before : at->second) {
        if (steps[static_cast<std::size_t>(before)].round == step.round) break;
        step.after.push_back(before);
      }
    }
    std::ranges::sort(step.after);
    step.after.erase(std::unique(step.after.begin(), step.after.end()), step.after.end());
    for (const DeviceId d : receivers(step.kind, step.group))
      arrived[d].push_back(static_cast<std::int32_t>(i));
  }
}

std::uint64_t transfer_key_low(Collective kind, std::int32_t round, std::int32_t turn,
                               std::span<const DeviceId> group, std::uint64_t index,
                               std::uint64_t num_devices) {
  const auto from = static_cast<std::uint64_t>(group.front().value);
  const auto to = static_cast<std::uint64_t>(group.back().value);
  const std::uint64_t shift = kind == Collective::Send ? (to + num_devices - from) % num_devices : 0;
  const std::uint64_t place = turn == RedistributionStep::no_turn ? shift : static_cast<std::uint64_t>(turn);
  return static_cast<std::uint64_t>(round) << 60 | (place & 0xFFFFF) << 40 | (from & 0xFFFFF) << 20 |
         (index & 0xFFFFF);
}

std::optional<std::vector<RedistributionStep>> plan_steps(const Layout& from, const Layout& to,
                                                          const std::vector<bool>& peeled,
                                                          const RedistributionSetting& setting) {
  std::vector<RedistributionStep> steps;
  if (std::all_of(peeled.begin(), peeled.end(), [](bool p) { return p; })) return steps;
  std::int32_t number = 0;
  for (const RedistributionComponent& c : components(parts_of(from, peeled), wants_of(to))) {
    auto cheapest = cheapest_steps(c, setting);
    if (!cheapest) return std::nullopt;
    for (RedistributionStep& s : *cheapest) {
      s.component = number;
      // Addends of a later round's layout count anew: its only one stands for all that was brought together.
      if (setting.first_round > 0 && s.round == setting.first_round)
        s.gives_addend.assign(s.gives_addend.size(), RedistributionStep::all_addends);
      steps.push_back(std::move(s));
    }
    ++number;
  }
  return steps;
}

namespace {

std::optional<Redistribution> redistribution(const Layout& from, const Layout& to,
                                             RedistributionSetting setting) {
  Redistribution result;
  setting.compared = &result.compared;
  result.local = local_devices(from, to);
  result.peeled = peeled_addends(from, to);
  if (from == to && from.num_addends() == 1) return result;
  const bool meshes = between_meshes(from, to);
  // Another way may take less where those that are compared first take too long.
  if (meshes) setting.most = Seconds(std::numeric_limits<double>::infinity());
  auto steps = plan_steps(from, to, result.peeled, setting);
  if (!steps) return std::nullopt;
  result.steps = std::move(*steps);
  const auto earlier = [](const auto& a, const auto& b) {
    return std::pair(a.component, a.round) < std::pair(b.component, b.round);
  };
  if (!std::is_sorted(result.steps.begin(), result.steps.end(), earlier))
    std::stable_sort(result.steps.begin(), result.steps.end(), earlier);
  link_rounds(result.steps);
  if (meshes) {
    if (auto faster = faster_between_meshes(result.steps, from, to, setting))
      result.steps = std::move(*faster);
  }
  return result;
}

}  // namespace

Redistribution redistribute(const Layout& from, const Layout& to, std::int64_t element_bytes,
                            CommunicationPrices& prices, StepContents contents) {
  return *redistribution(from, to, {element_bytes, 0, false, prices, contents});
}

std::optional<Redistribution> redistribute_within(Seconds most, const Layout& from, const Layout& to,
                                                  std::int64_t element_bytes, CommunicationPrices& prices) {
  return redistribution(from, to, {element_bytes, 0, false, prices, StepContents::LeaveOut, most});
}

Seconds estimated_time(const Redistribution& redistribution, std::int64_t element_bytes,
                       CommunicationPrices& prices) {
  return time_of_steps(redistribution.steps, element_bytes, prices);
}

}  // namespace pipesim
