#include "taskgraph/moving/redistribution_candidates.h"

#include <algorithm>
#include <optional>
#include <tuple>
#include <utility>

#include "taskgraph/moving/box_cuts.h"

namespace pipesim {
namespace {

using Steps = std::vector<RedistributionStep>;

RedistributionStep step(Collective kind, std::vector<DeviceId> group, std::int64_t elements,
                        std::int32_t round) {
  RedistributionStep s;
  s.kind = kind;
  s.round = round;
  s.group = std::move(group);
  s.elements = elements;
  return s;
}

// Members of a step with what each gives and gets, while the step is put together.
struct Member {
  DeviceId device;
  std::optional<Box> gives, gets;
  std::int32_t addend = 0;
};

// The members in the order of `devices`.
void add_members(RedistributionStep& s, const std::vector<Member>& members, StepContents contents) {
  if (contents == StepContents::LeaveOut) return;
  for (const DeviceId d : s.group) {
    const auto m =
        std::find_if(members.begin(), members.end(), [&](const Member& x) { return x.device == d; });
    s.gives.push_back(m->gives);
    s.gets.push_back(m->gets);
    s.gives_addend.push_back(m->addend);
  }
}

// What all candidates look at.
struct Shape {
  explicit Shape(const RedistributionComponent& c, const CommunicationPrices& prices);
  // nullptr: the device wants nothing.
  [[nodiscard]] const Box* wanted(DeviceId d) const {
    const auto at = std::ranges::lower_bound(want_of, d, {}, &DeviceWant::first);
    return at != want_of.end() && at->first == d ? at->second : nullptr;
  }
  using DeviceWant = std::pair<DeviceId, const Box*>;
  std::vector<DeviceWant> want_of;  // by device, ascending; the first of each
  bool one_want_each = true;        // no device wants two boxes
  Box bounds;                       // of all wanted boxes
  std::vector<Box> boxes;           // distinct boxes of the parts, ascending
  std::size_t num_addends = 0;
  bool regular = false;  // parts are boxes × addends, boxes disjoint
  std::vector<std::vector<DeviceId>>
      lanes;  // [lane][part]: disjoint sets of devices that hold one copy of every part
};

Shape::Shape(const RedistributionComponent& c, const CommunicationPrices& prices) {
  std::vector<Box> wants;
  wants.reserve(c.wants.size());
  for (const RedistributionWant& w : c.wants) {
    wants.push_back(w.box);
    for (const DeviceId d : w.devices) want_of.emplace_back(d, &w.box);
  }
  std::ranges::stable_sort(want_of, {}, &DeviceWant::first);
  const auto same_device = [](const DeviceWant& a, const DeviceWant& b) { return a.first == b.first; };
  const auto again = std::unique(want_of.begin(), want_of.end(), same_device);
  one_want_each = again == want_of.end();
  want_of.erase(again, want_of.end());
  bounds = bounds_of(wants);
  std::vector<std::int32_t> addends;
  for (const RedistributionPart& p : c.parts) {
    if (boxes.empty() || boxes.back() != p.box) boxes.push_back(p.box);
    addends.push_back(p.addend);
  }
  std::sort(addends.begin(), addends.end());
  addends.erase(std::unique(addends.begin(), addends.end()), addends.end());
  num_addends = addends.size();
  regular = boxes.size() * num_addends == c.parts.size() && disjoint(boxes);
  lanes = lanes_of(c.parts, prices);
}

std::vector<std::size_t> dims_in_order(std::size_t dims) {
  std::vector<std::size_t> order(dims);
  for (std::size_t i = 0; i < dims; ++i) order[i] = i;
  return order;
}

std::vector<DeviceId> sorted(std::vector<DeviceId> devices) {
  std::sort(devices.begin(), devices.end());
  return devices;
}

// The collective that turns one lane's parts into what its devices want.
std::optional<RedistributionStep> lane_collective(const RedistributionComponent& c, const Shape& shape,
                                                  const std::vector<DeviceId>& lane,
                                                  const RedistributionSetting& setting) {
  std::vector<Box> wants, crops;
  std::vector<Member> members;
  for (const DeviceId d : lane) wants.push_back(*shape.wanted(d));
  const Box whole = bounds_of(wants);
  for (std::size_t p = 0; p < c.parts.size(); ++p) {
    const std::optional<Box> crop = intersection(c.parts[p].box, whole);
    if (!crop) return std::nullopt;
    crops.push_back(*crop);
    members.push_back({lane[p], crop, wants[p], c.parts[p].addend});
  }
  std::sort(crops.begin(), crops.end());
  crops.erase(std::unique(crops.begin(), crops.end()), crops.end());
  const bool all_want_whole =
      std::all_of(wants.begin(), wants.end(), [&](const Box& b) { return b == whole; });
  const bool one_box = crops.size() == 1 && crops[0] == whole;
  const auto held_dim = slice_dim(crops, whole), want_dim = slice_dim(wants, whole);
  std::optional<Collective> kind;
  if (one_box && all_want_whole) {
    kind = Collective::AllReduce;
  } else if (one_box && want_dim) {
    kind = Collective::ReduceScatter;
  } else if (shape.num_addends == 1 && held_dim && all_want_whole) {
    kind = Collective::AllGather;
  } else if (shape.num_addends == 1 && ((held_dim && want_dim && *held_dim != *want_dim) ||
                                        exchanges_equal_shares(crops, wants, whole))) {
    kind = Collective::AllToAll;
  }
  if (!kind) return std::nullopt;
  RedistributionStep s = step(*kind, sorted(lane), whole.elements(), setting.first_round);
  add_members(s, members, setting.contents);
  return s;
}

std::optional<Steps> recognised(const RedistributionComponent& c, const Shape& shape,
                                const RedistributionSetting& setting) {
  if (shape.lanes.empty() || !shape.one_want_each || !shape.regular) return std::nullopt;
  if (shape.lanes.size() * c.parts.size() != shape.want_of.size()) return std::nullopt;
  Steps steps;
  for (const std::vector<DeviceId>& lane : shape.lanes) {
    if (!std::all_of(lane.begin(), lane.end(), [&](DeviceId d) { return shape.wanted(d); }))
      return std::nullopt;
    std::optional<RedistributionStep> s = lane_collective(c, shape, lane, setting);
    if (!s) return std::nullopt;
    if (lane.size() > 1) steps.push_back(std::move(*s));
  }
  return steps;
}

std::optional<Steps> broadcast(const RedistributionComponent& c, const RedistributionSetting& setting) {
  if (c.parts.size() != 1 || c.wants.size() != 1) return std::nullopt;
  const std::vector<DeviceId>& holders = c.parts[0].devices;
  if (!c.wants[0].box.inside(c.parts[0].box)) return std::nullopt;
  std::vector<DeviceId> lacking;
  std::set_difference(c.wants[0].devices.begin(), c.wants[0].devices.end(), holders.begin(), holders.end(),
                      std::back_inserter(lacking));
  if (lacking.size() < 2) return std::nullopt;
  const auto nearness = [&](DeviceId holder) {
    int least = INT32_MAX;
    for (const DeviceId d : lacking) least = std::min(least, setting.prices.distance(holder, d));
    return std::pair(least, holder);
  };
  const DeviceId root = *std::min_element(holders.begin(), holders.end(),
                                          [&](DeviceId a, DeviceId b) { return nearness(a) < nearness(b); });
  std::vector<DeviceId> group{root};
  group.insert(group.end(), lacking.begin(), lacking.end());
  const Box& box = c.wants[0].box;
  RedistributionStep s = step(Collective::Broadcast, std::move(group), box.elements(), setting.first_round);
  std::vector<Member> members{{root, box, std::nullopt, c.parts[0].addend}};
  for (const DeviceId d : lacking) members.push_back({d, std::nullopt, box, 0});
  add_members(s, members, setting.contents);
  return Steps{std::move(s)};
}

// All addends of one box to one device. What the device itself holds was peeled, so it need not be in the
// lane: it adds its own.
std::optional<Steps> reduce(const RedistributionComponent& c, const Shape& shape,
                            const RedistributionSetting& setting) {
  if (shape.lanes.empty() || shape.boxes.size() != 1) return std::nullopt;
  if (c.wants.size() != 1 || c.wants[0].devices.size() != 1) return std::nullopt;
  const DeviceId destination = c.wants[0].devices[0];
  if (!c.wants[0].box.inside(shape.boxes[0])) return std::nullopt;
  const auto farthest = [&](const std::vector<DeviceId>& lane) {
    int most = 0;
    for (const DeviceId d : lane) most = std::max(most, setting.prices.distance(d, destination));
    return most;
  };
  const std::vector<DeviceId>& lane =
      *std::min_element(shape.lanes.begin(), shape.lanes.end(),
                        [&](const auto& a, const auto& b) { return farthest(a) < farthest(b); });
  const Box& box = c.wants[0].box;
  std::vector<Member> members{{destination, std::nullopt, box, 0}};
  for (std::size_t p = 0; p < lane.size(); ++p)
    members.push_back({lane[p], box, std::nullopt, c.parts[p].addend});
  std::vector<DeviceId> group = lane;
  std::erase(group, destination);
  if (group.size() < 2) return std::nullopt;
  std::sort(group.begin(), group.end());
  group.insert(group.begin(), destination);
  RedistributionStep s = step(Collective::Reduce, std::move(group), box.elements(), setting.first_round);
  add_members(s, members, setting.contents);
  return Steps{std::move(s)};
}

RedistributionSetting next_round(const RedistributionSetting& s, bool nested) {
  return {s.element_bytes, s.first_round + 1, nested, s.prices, s.contents};  // whatever time it takes
}

Layout wanted_layout(const RedistributionComponent& c) {
  std::vector<Layout::Piece> pieces;
  for (const RedistributionWant& w : c.wants) {
    for (const DeviceId d : w.devices) pieces.push_back({d, w.box, 0});
  }
  return Layout(pieces);
}

// Appends the steps from what the steps so far reach to the wanted layout.
void append_rest(Steps& steps, const std::vector<Layout::Piece>& reached, const RedistributionComponent& c,
                 const RedistributionSetting& setting) {
  const Layout from(reached), to = wanted_layout(c);
  Steps rest = *plan_steps(from, to, peeled_addends(from, to), setting);
  steps.insert(steps.end(), std::make_move_iterator(rest.begin()), std::make_move_iterator(rest.end()));
}

// Dimensions in which the wanted boxes differ come first, so that pieces fall where they are wanted.
std::vector<std::size_t> cut_order(const RedistributionComponent& c, const Shape& shape) {
  std::vector<std::size_t> first, rest;
  for (std::size_t i = 0; i < shape.bounds.dims(); ++i) {
    const bool differs = std::any_of(c.wants.begin(), c.wants.end(), [&](const RedistributionWant& w) {
      return w.box[i] != shape.bounds[i];
    });
    (differs ? first : rest).push_back(i);
  }
  first.insert(first.end(), rest.begin(), rest.end());
  return first;
}

// The devices of a lane that hold addends of `box`, in the order of what they want.
std::vector<DeviceId> addend_holders(const RedistributionComponent& c, const Shape& shape,
                                     const std::vector<DeviceId>& lane, const Box& box) {
  std::vector<DeviceId> devices;
  for (std::size_t p = 0; p < c.parts.size(); ++p) {
    if (c.parts[p].box == box) devices.push_back(lane[p]);
  }
  const auto rank = [&](DeviceId d) {
    const Box* want = shape.wanted(d);
    return std::tuple(want == nullptr, want ? *want : Box(), d);
  };
  std::sort(devices.begin(), devices.end(), [&](DeviceId a, DeviceId b) { return rank(a) < rank(b); });
  return devices;
}

// Reduce among the addends of each box first, then move what results.
std::optional<Steps> reduce_first(const RedistributionComponent& c, const Shape& shape,
                                  const RedistributionSetting& setting) {
  if (setting.nested || shape.lanes.empty() || !shape.regular || shape.num_addends < 2) return std::nullopt;
  Steps steps;
  std::vector<Layout::Piece> reduced;
  const std::vector<std::size_t> order = cut_order(c, shape);
  for (const std::vector<DeviceId>& lane : shape.lanes) {
    for (const Box& box : shape.boxes) {
      const std::optional<Box> crop = intersection(box, shape.bounds);
      if (!crop) return std::nullopt;
      const std::vector<DeviceId> group = addend_holders(c, shape, lane, box);
      const auto pieces = pieces_of(*crop, group.size(), order);
      std::vector<Member> members;
      for (std::size_t j = 0; j < group.size(); ++j) {
        const Box& mine = pieces ? (*pieces)[j] : *crop;
        const auto part = std::find(lane.begin(), lane.end(), group[j]) - lane.begin();
        members.push_back({group[j], crop, mine, c.parts[static_cast<std::size_t>(part)].addend});
        reduced.push_back({group[j], mine, 0});
      }
      if (group.size() < 2) continue;
      const Collective kind = pieces ? Collective::ReduceScatter : Collective::AllReduce;
      steps.push_back(step(kind, sorted(group), crop->elements(), setting.first_round));
      add_members(steps.back(), members, setting.contents);
    }
  }
  append_rest(steps, reduced, c, next_round(setting, false));
  return steps;
}

// One share of its wanted box for every device, or nothing where boxes can't be shared out evenly.
std::optional<RedistributionComponent> shares_of(const RedistributionComponent& c, const Shape& shape,
                                                 const RedistributionSetting& setting) {
  const bool copies =
      std::any_of(c.wants.begin(), c.wants.end(), [](const auto& w) { return w.devices.size() > 1; });
  if (setting.nested || !copies || !shape.one_want_each) return std::nullopt;
  RedistributionComponent shares{c.parts, {}};
  for (const RedistributionWant& w : c.wants) {
    const auto pieces = pieces_of(w.box, w.devices.size(), dims_in_order(w.box.dims()));
    if (!pieces) return std::nullopt;
    for (std::size_t j = 0; j < w.devices.size(); ++j) shares.wants.push_back({(*pieces)[j], {w.devices[j]}});
  }
  return shares;
}

// Every holder of a wanted box fetches one share of it, then the shares are gathered.
Steps share_then_gather(const RedistributionComponent& c, const RedistributionComponent& shares,
                        const RedistributionSetting& setting) {
  Steps steps = direct_steps(shares, setting);
  std::vector<Layout::Piece> fetched;
  for (const RedistributionWant& w : shares.wants) fetched.push_back({w.devices.front(), w.box, 0});
  append_rest(steps, fetched, c, next_round(setting, true));
  return steps;
}

// The best of the candidates so far: least (time, rounds), the earlier of equals.
class Cheapest {
 public:
  explicit Cheapest(const RedistributionSetting& setting) : setting_(setting) {}

  void consider(std::optional<Steps> steps) {
    if (!steps) return;
    if (best_) {
      const Price price = price_of(*steps);
      if (price >= best_price()) return;
      price_ = price;
    }
    best_ = std::move(steps);
  }
  // Whether sends of this component may be better, as far as a bound tells without a list of them.
  [[nodiscard]] bool may_be_improved_by(const RedistributionComponent& sends) {
    constexpr double kInexact = 1e-9;
    const Seconds least = least_time_of_sends(sends, setting_) * (1 - kInexact);
    return least <= (best_ ? best_price().first : setting_.most);
  }
  std::optional<Steps> take() { return std::move(best_); }

 private:
  using Price = std::pair<Seconds, std::int32_t>;
  [[nodiscard]] Price price_of(const Steps& steps) const {
    std::int32_t rounds = 0;
    for (const RedistributionStep& s : steps) rounds = std::max(rounds, s.round);
    return {time_of_steps(steps, setting_.element_bytes, setting_.prices), rounds};
  }
  const Price& best_price() {
    if (!price_) price_ = price_of(*best_);
    return *price_;
  }

  const RedistributionSetting& setting_;
  std::optional<Steps> best_;
  std::optional<Price> price_;  // of best_, once it was asked for
};

// Whether parts of one addend overlap: elements in several parts are sent once.
bool overlap(const std::vector<RedistributionPart>& parts) {
  for (std::size_t i = 0; i < parts.size(); ++i) {
    for (std::size_t j = i + 1; j < parts.size() && !begins_behind(parts[j].box, parts[i].box); ++j) {
      if (parts[i].addend == parts[j].addend && parts[i].box.meets(parts[j].box)) return true;
    }
  }
  return false;
}

std::int64_t elements_on_links(const Steps& steps) {
  std::int64_t sum = 0;
  for (const RedistributionStep& s : steps)
    sum += bytes_on_links(s.kind, static_cast<std::int64_t>(s.group.size()), Bytes(s.elements));
  return sum;
}

bool in_one_round(const Steps& steps) { return steps.empty() || steps.front().round == steps.back().round; }

// Counts what direct sends move, where the parts are regular and cover what is wanted: all addends that a
// device lacks.
std::int64_t elements_of_sends(const RedistributionComponent& c, const Shape& shape) {
  std::int64_t sum = 0;
  for (const RedistributionWant& w : c.wants)
    sum += w.box.elements() * static_cast<std::int64_t>(w.devices.size() * shape.num_addends);
  for (const RedistributionPart& p : c.parts) {
    for (const DeviceId d : p.devices) {
      const Box* want = shape.wanted(d);
      sum -= want ? shared_elements(p.box, *want) : 0;
    }
  }
  return sum;
}

}  // namespace

std::vector<std::vector<DeviceId>> lanes_of(const std::vector<RedistributionPart>& parts,
                                            const CommunicationPrices& prices) {
  const std::size_t copies = parts.front().devices.size();
  std::vector<DeviceId> used;
  for (const RedistributionPart& p : parts) {
    if (p.devices.size() != copies) return {};
    used.insert(used.end(), p.devices.begin(), p.devices.end());
  }
  std::ranges::sort(used);
  if (std::ranges::adjacent_find(used) != used.end()) return {};
  std::vector<std::vector<DeviceId>> lanes;
  for (const DeviceId seed : parts.front().devices) lanes.push_back({seed});
  for (std::size_t p = 1; p < parts.size(); ++p) {
    std::vector<DeviceId> free = parts[p].devices;
    for (std::vector<DeviceId>& lane : lanes) {
      const auto nearest = std::min_element(free.begin(), free.end(), [&](DeviceId a, DeviceId b) {
        return std::pair(prices.distance(lane[0], a), a) < std::pair(prices.distance(lane[0], b), b);
      });
      lane.push_back(*nearest);
      free.erase(nearest);
    }
  }
  return lanes;
}

Seconds time_of_steps(std::span<const RedistributionStep> steps, std::int64_t element_bytes,
                      CommunicationPrices& prices) {
  std::int32_t first = INT32_MAX, last = -1;
  for (const RedistributionStep& s : steps) first = std::min(first, s.round), last = std::max(last, s.round);
  ConcurrentTime& concurrent = prices.concurrent();
  Seconds sum;
  for (std::int32_t round = first; round <= last; ++round) {
    for (const RedistributionStep& s : steps) {
      if (s.round == round) concurrent.add(prices.time(s.kind, s.group, Bytes(s.elements * element_bytes)));
    }
    sum += concurrent.finish();
  }
  return sum;
}

// What a device does not hold comes into it, and what no device of its node holds, into the node: sends take
// nothing along for others.
Seconds least_time_of_sends(const RedistributionComponent& component, const RedistributionSetting& setting) {
  const Borders& borders = setting.prices.borders();
  if (borders.empty() || overlap(component.parts)) return Seconds(0);
  std::vector<std::int64_t> elements(borders.size(), 0);
  for (const RedistributionWant& want : component.wants) {
    for (const RedistributionPart& part : component.parts) {
      if (begins_behind(part.box, want.box)) break;
      const std::int64_t shared = shared_elements(part.box, want.box);
      if (shared == 0) continue;
      for (const DeviceId to : want.devices) {
        int nearest = INT32_MAX;
        for (const DeviceId d : part.devices) nearest = std::min(nearest, setting.prices.distance(d, to));
        if (nearest > 0) elements[borders.into(to)] += shared;
        if (nearest > 1) elements[borders.into_node(borders.node(to))] += shared;
      }
    }
  }
  Seconds least;
  for (std::size_t b = 0; b < elements.size(); ++b) {
    if (elements[b] > 0) least = std::max(least, borders.least_time(b, elements[b] * setting.element_bytes));
  }
  return least;
}

std::optional<Steps> cheapest_steps(const RedistributionComponent& component,
                                    const RedistributionSetting& setting) {
  const Shape shape(component, setting.prices);
  if (auto steps = recognised(component, shape, setting)) return steps;
  if (setting.compared != nullptr) *setting.compared = true;
  Cheapest cheapest(setting);
  if (!setting.nested && shape.one_want_each && shape.regular && !shape.lanes.empty()) {
    const std::int64_t sent = elements_of_sends(component, shape);
    bool certain = false;
    for (Steps& steps : composed_steps(component, shape.lanes, setting)) {
      certain = certain || (in_one_round(steps) && elements_on_links(steps) <= sent);
      cheapest.consider(std::move(steps));
    }
    if (std::optional<Steps> steps = scatter_then_sum(component, shape.lanes, setting)) {
      certain = certain || 2 * elements_on_links(*steps) <= sent;
      cheapest.consider(std::move(steps));
    }
    if (certain) return cheapest.take();
  }
  cheapest.consider(broadcast(component, setting));
  cheapest.consider(reduce(component, shape, setting));
  cheapest.consider(reduce_first(component, shape, setting));
  if (const auto shares = shares_of(component, shape, setting);
      shares && cheapest.may_be_improved_by(*shares)) {
    cheapest.consider(share_then_gather(component, *shares, setting));
  }
  if (cheapest.may_be_improved_by(component)) cheapest.consider(direct_steps(component, setting));
  return cheapest.take();
}

}  // namespace pipesim
