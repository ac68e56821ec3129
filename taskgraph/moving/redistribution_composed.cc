#include <algorithm>
#include <array>
#include <optional>
#include <tuple>
#include <utility>

#include "taskgraph/moving/box_cuts.h"
#include "taskgraph/moving/redistribution_candidates.h"

namespace pipesim {
namespace {

// A device that holds a part and wants a box, with the piece of its part that it hands out and the share of
// its box that the exchange brings.
struct Exchanger {
  DeviceId device;
  const Box *held, *wanted;
  std::size_t held_number, wanted_number;  // of the box among all that are held or wanted, ascending
  std::size_t lane;
  std::int32_t addend;
  Box piece, share;
  std::size_t group = 0;  // of the exchange
};

// Pieces and shares of all devices. Where several devices have a part, either their pieces divide it, or the
// pieces are whole parts; so for shares of a wanted box.
struct Cutting {
  std::vector<Exchanger> all;  // ascending by device
  bool pieces_divide = false, shares_divide = false;
  std::int64_t traffic = 0;  // elements on links, of all steps
  std::size_t largest = 0;   // group of the exchange
};

using Order = std::vector<std::size_t>;  // of exchangers

template <class Key>
void sort_by(std::span<std::size_t> order, const std::vector<Exchanger>& all, Key key) {
  std::ranges::sort(order, [&](std::size_t a, std::size_t b) { return key(all[a]) < key(all[b]); });
}

template <class Key>
Order ordered_by(const std::vector<Exchanger>& all, Key key) {
  Order order(all.size());
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
  sort_by(order, all, key);
  return order;
}

// Visits each run of neighbours in `order` with equal keys.
template <class Key, class Visit>
void for_each_group(const Order& order, const std::vector<Exchanger>& all, Key key, Visit visit) {
  for (std::size_t begin = 0, end = 0; begin < order.size(); begin = end) {
    while (end < order.size() && key(all[order[end]]) == key(all[order[begin]])) ++end;
    visit(std::span(order).subspan(begin, end - begin));
  }
}

// Number `number` of `count` equal cuts.
Box equal_cut(const Box& box, std::size_t dim, std::size_t number, std::size_t count) {
  Box result = box;
  const std::int64_t length = box[dim].length() / static_cast<std::int64_t>(count);
  result[dim].begin += static_cast<std::int64_t>(number) * length;
  result[dim].end = result[dim].begin + length;
  return result;
}

bool divides(std::size_t count, const Box& box, std::size_t dim) {
  return box[dim].length() % static_cast<std::int64_t>(count) == 0;
}

class BestOfKind {
 public:
  void consider(const Cutting& cutting) {
    const auto groups = [](const Cutting& c) { return std::tie(c.largest, c.traffic); };
    const auto traffic = [](const Cutting& c) { return std::tie(c.traffic, c.largest); };
    if (!smallest_groups_ || groups(cutting) < groups(*smallest_groups_)) smallest_groups_ = cutting;
    if (!least_traffic_ || traffic(cutting) < traffic(*least_traffic_)) least_traffic_ = cutting;
  }
  void append_to(std::vector<Cutting>& found) {
    if (!smallest_groups_) return;
    const bool same = smallest_groups_->traffic == least_traffic_->traffic;
    found.push_back(std::move(*smallest_groups_));
    if (!same) found.push_back(std::move(*least_traffic_));
  }

 private:
  std::optional<Cutting> smallest_groups_, least_traffic_;
};

// Finds how to cut parts and wanted boxes so that all that is left between them are all-to-alls of equal
// blocks in disjoint groups.
class CuttingFinder {
 public:
  CuttingFinder(const RedistributionComponent& component, std::span<const std::vector<DeviceId>> lanes)
      : lanes_(lanes.size()), copies_(component.wants[0].devices.size()) {
    while (addends_ < component.parts.size() && component.parts[addends_].box == component.parts[0].box)
      ++addends_;
    possible_ = copies_ * lanes_ * addends_ > 1 && add_exchangers(component, lanes);
    if (!possible_) return;
    by_held_ = ordered_by(now_.all, [](const Exchanger& e) { return std::tie(e.held_number, e.device); });
    by_wanted_ = ordered_by(now_.all, [](const Exchanger& e) { return std::tie(e.wanted_number, e.device); });
  }

  // Returns for each kind the cutting with the smallest groups, and the cutting with the least traffic if
  // that has less. The first dimensions win. Bytes do not tell which kind is fastest: a gathering moves as
  // many again, but may do so inside nodes.
  std::vector<Cutting> find() {
    std::array<BestOfKind, 4> best;
    if (possible_) {
      const std::size_t dims = now_.all.front().held->dims();
      for (std::size_t s = copies_ > 1 ? 0 : dims; s <= dims; ++s) {
        if (!cut_shares(s)) continue;
        for (std::size_t p = lanes_ * addends_ > 1 ? 0 : dims; p <= dims; ++p) {
          if (cut_pieces(p) && exchange_in_groups())
            best[(now_.shares_divide ? 0 : 2) + (now_.pieces_divide ? 0 : 1)].consider(now_);
        }
      }
    }
    std::vector<Cutting> found;
    for (BestOfKind& kind : best) kind.append_to(found);
    return found;
  }

 private:
  // Every device has one part and wants one box, and all are alike.
  bool add_exchangers(const RedistributionComponent& c, std::span<const std::vector<DeviceId>> lanes) {
    const std::size_t devices = lanes.size() * c.parts.size();
    if (c.wants.size() * copies_ != devices) return false;
    const std::int64_t part = c.parts[0].box.elements(), want = c.wants[0].box.elements();
    for (const RedistributionWant& w : c.wants) {
      if (w.devices.size() != copies_ || w.box.elements() != want) return false;
    }
    for (const RedistributionPart& p : c.parts) {
      if (p.box.elements() != part) return false;
    }
    now_.all.reserve(devices);
    for (std::size_t w = 0; w < c.wants.size(); ++w) {
      for (const DeviceId d : c.wants[w].devices)
        now_.all.push_back({d, nullptr, &c.wants[w].box, 0, w, 0, 0, {}, {}});
    }
    std::ranges::sort(now_.all, {}, &Exchanger::device);
    for (std::size_t lane = 0; lane < lanes.size(); ++lane) {
      for (std::size_t p = 0; p < c.parts.size(); ++p) {
        const auto e = std::ranges::lower_bound(now_.all, lanes[lane][p], {}, &Exchanger::device);
        if (e == now_.all.end() || e->device != lanes[lane][p]) return false;
        e->held = &c.parts[p].box, e->held_number = p / addends_;
        e->lane = lane, e->addend = c.parts[p].addend;
      }
    }
    return true;
  }

  // Cuts nothing if `dim` is behind the last dimension. A share comes to the device that holds more near it.
  bool cut_shares(std::size_t dim) {
    now_.shares_divide = dim < now_.all.front().wanted->dims();
    if (!now_.shares_divide) {
      for (Exchanger& e : now_.all) e.share = *e.wanted;
      return true;
    }
    for (const Exchanger& e : now_.all) {
      if (!divides(copies_, *e.wanted, dim)) return false;
    }
    sort_by(by_wanted_, now_.all,
            [&](const Exchanger& e) { return std::tuple(e.wanted_number, (*e.held)[dim].begin, e.device); });
    for (std::size_t i = 0; i < by_wanted_.size(); ++i) {
      Exchanger& e = now_.all[by_wanted_[i]];
      e.share = equal_cut(*e.wanted, dim, i % copies_, copies_);
    }
    return true;
  }

  // A piece comes from the device whose share is near it. The addends of a lane give neighbouring pieces, so
  // that these are reduced together.
  bool cut_pieces(std::size_t dim) {
    now_.pieces_divide = dim < now_.all.front().held->dims();
    if (!now_.pieces_divide) {
      for (Exchanger& e : now_.all) e.piece = *e.held;
      return true;
    }
    const std::size_t count = lanes_ * addends_;
    for (const Exchanger& e : now_.all) {
      if (!divides(count, *e.held, dim)) return false;
    }
    const bool by_lane = addends_ > 1;
    sort_by(by_held_, now_.all, [&](const Exchanger& e) {
      return std::tuple(e.held_number, by_lane ? e.lane : 0, e.share[dim].begin, e.device);
    });
    for (std::size_t i = 0; i < by_held_.size(); ++i) {
      Exchanger& e = now_.all[by_held_[i]];
      e.piece = equal_cut(*e.held, dim, i % count, count);
    }
    return true;
  }

  // Puts every device into a group in which each gives every other a block of equal size, and no device needs
  // more. Returns whether that is possible. Counts the traffic.
  bool exchange_in_groups() {
    constexpr std::size_t kNone = SIZE_MAX;
    std::vector<Exchanger>& all = now_.all;
    for (Exchanger& e : all) e.group = kNone;
    now_.largest = 0, now_.traffic = 0;
    for (std::size_t i = 0; i < all.size(); ++i) {
      if (all[i].group != kNone) continue;
      find_partners(i);
      const std::int64_t block = equal_blocks(), n = std::ssize(partners_);
      if (block == 0) return false;
      for (const std::size_t j : partners_) {
        if (all[j].group != kNone) return false;
        all[j].group = i;
      }
      if (all[i].group != i) return false;
      now_.largest = std::max(now_.largest, partners_.size());
      now_.traffic += n * (n - 1) * block;
    }
    const auto devices = static_cast<std::int64_t>(all.size());
    const Exchanger& first = all.front();
    const auto others = [](std::size_t n) { return static_cast<std::int64_t>(n - 1); };
    if (now_.pieces_divide && addends_ > 1)
      now_.traffic += devices * first.piece.elements() * others(addends_);
    if (now_.shares_divide) now_.traffic += devices * first.share.elements() * others(copies_);
    return true;
  }

  // Finds the devices that want something of the piece; for whole pieces only those of the giver's lane.
  void find_partners(std::size_t giver) {
    const Exchanger& g = now_.all[giver];
    const bool by_lane = !now_.pieces_divide && lanes_ > 1;
    partners_.clear();
    for (std::size_t j = 0; j < now_.all.size(); ++j) {
      const Exchanger& e = now_.all[j];
      if (by_lane ? e.lane == g.lane : g.piece.meets(e.share)) partners_.push_back(j);
    }
  }

  // Returns the elements of the block that every partner gives to every partner; 0 when blocks are not equal
  // or leave something out, and where no device wants anything of the piece.
  [[nodiscard]] std::int64_t equal_blocks() const {
    if (partners_.empty()) return 0;
    const std::vector<Exchanger>& all = now_.all;
    const Exchanger& first = all[partners_.front()];
    const std::int64_t block = shared_elements(first.piece, first.share), n = std::ssize(partners_);
    const auto addends = static_cast<std::int64_t>(now_.pieces_divide ? 1 : addends_);
    if (block * n != first.share.elements() * addends) return 0;
    if (equal_in_each_dim()) return block;
    const bool equal = std::ranges::all_of(partners_, [&](std::size_t from) {
      return std::ranges::all_of(partners_, [&](std::size_t to) {
        return shared_elements(all[from].piece, all[to].share) == block;
      });
    });
    return equal ? block : 0;
  }

  // Whether, in each dimension, all pieces of partners share equally much with all shares. Then blocks are
  // equal. Along most dimensions there are few distinct ranges, so this is quick where there are many
  // partners.
  [[nodiscard]] bool equal_in_each_dim() const {
    const auto distinct = [&](Box Exchanger::*box, std::size_t dim) {
      std::vector<Range> found;
      for (const std::size_t i : partners_) found.push_back((now_.all[i].*box)[dim]);
      std::ranges::sort(found);
      found.erase(std::unique(found.begin(), found.end()), found.end());
      return found;
    };
    for (std::size_t dim = 0; dim < now_.all.front().piece.dims(); ++dim) {
      const std::vector<Range> pieces = distinct(&Exchanger::piece, dim),
                               shares = distinct(&Exchanger::share, dim);
      if (pieces.size() * shares.size() > 4 * partners_.size()) return false;
      const auto overlap = [](Range a, Range b) {
        return std::max<std::int64_t>(0, std::min(a.end, b.end) - std::max(a.begin, b.begin));
      };
      const std::int64_t first = overlap(pieces.front(), shares.front());
      for (const Range piece : pieces) {
        for (const Range share : shares) {
          if (overlap(piece, share) != first) return false;
        }
      }
    }
    return true;
  }

  std::size_t lanes_, addends_ = 0, copies_;  // of parts, of a part, of a wanted box
  bool possible_ = false;
  Cutting now_;
  Order by_held_, by_wanted_, partners_;
};

// What a member of a step gives and gets.
struct MemberBoxes {
  Box gives, gets;
  std::int32_t addend;
};

// The steps of a cutting.
class CuttingSteps {
 public:
  CuttingSteps(const Cutting& cutting, const RedistributionSetting& setting)
      : cutting_(cutting), all_(cutting.all), setting_(setting), round_(setting.first_round) {}

  std::vector<RedistributionStep> list() {
    const bool summed = cutting_.pieces_divide && add_reduction();
    add_exchange(summed);
    if (cutting_.shares_divide) add_gathering();
    return std::move(steps_);
  }

 private:
  // Returns whether there were addends to reduce.
  bool add_reduction() {
    const auto key = [](const Exchanger& e) { return std::tie(e.held_number, e.lane); };
    for_each_group(ordered_by(all_, key), all_, key, [&](std::span<const std::size_t> group) {
      if (group.size() < 2) return;
      Box whole = all_[group.front()].piece;
      for (const std::size_t m : group) {
        for (std::size_t d = 0; d < whole.dims(); ++d) {
          whole[d].begin = std::min(whole[d].begin, all_[m].piece[d].begin);
          whole[d].end = std::max(whole[d].end, all_[m].piece[d].end);
        }
      }
      add(Collective::ReduceScatter, group, whole.elements(), [&](const Exchanger& e) {
        return MemberBoxes{whole, e.piece, e.addend};
      });
    });
    if (steps_.empty()) return false;
    ++round_;
    return true;
  }

  void add_exchange(bool summed) {
    const auto key = [](const Exchanger& e) { return e.group; };
    for_each_group(ordered_by(all_, key), all_, key, [&](std::span<const std::size_t> group) {
      const Exchanger& first = all_[group.front()];
      const std::int64_t n = std::ssize(group), block = shared_elements(first.piece, first.share);
      if (n < 2) return;
      add(Collective::AllToAll, group, block * n * n, [&](const Exchanger& e) {
        return MemberBoxes{e.piece, e.share, summed ? RedistributionStep::all_addends : e.addend};
      });
    });
    ++round_;
  }

  void add_gathering() {
    const auto key = [](const Exchanger& e) { return e.wanted_number; };
    for_each_group(ordered_by(all_, key), all_, key, [&](std::span<const std::size_t> group) {
      const Box& whole = *all_[group.front()].wanted;
      add(Collective::AllGather, group, whole.elements(), [&](const Exchanger& e) {
        return MemberBoxes{e.share, whole, RedistributionStep::all_addends};
      });
    });
  }

  template <class Boxes>
  void add(Collective kind, std::span<const std::size_t> group, std::int64_t elements, Boxes boxes) {
    RedistributionStep& s = steps_.emplace_back();
    s.kind = kind;
    s.round = round_;
    s.elements = elements;
    Order members(group.begin(), group.end());
    std::ranges::sort(members);
    for (const std::size_t m : members) {
      s.group.push_back(all_[m].device);
      if (setting_.contents == StepContents::LeaveOut) continue;
      const MemberBoxes member = boxes(all_[m]);
      s.gives.emplace_back(member.gives);
      s.gets.emplace_back(member.gets);
      s.gives_addend.push_back(member.addend);
    }
  }

  const Cutting& cutting_;
  const std::vector<Exchanger>& all_;
  const RedistributionSetting& setting_;
  std::int32_t round_;
  std::vector<RedistributionStep> steps_;
};

}  // namespace

std::vector<std::vector<RedistributionStep>> composed_steps(const RedistributionComponent& component,
                                                            std::span<const std::vector<DeviceId>> lanes,
                                                            const RedistributionSetting& setting) {
  std::vector<std::vector<RedistributionStep>> ways;
  for (const Cutting& cutting : CuttingFinder(component, lanes).find())
    ways.push_back(CuttingSteps(cutting, setting).list());
  return ways;
}

std::optional<std::vector<RedistributionStep>> scatter_then_sum(const RedistributionComponent& component,
                                                                std::span<const std::vector<DeviceId>> lanes,
                                                                const RedistributionSetting& setting) {
  const std::vector<RedistributionPart>& parts = component.parts;
  const std::vector<RedistributionWant>& wants = component.wants;
  if (setting.nested || setting.first_round > 0 || lanes.size() != 1 || wants.size() < 2) return std::nullopt;
  if (parts.front().box != parts.back().box) return std::nullopt;
  const std::size_t copies = wants[0].devices.size();
  if (copies < 2 || copies * wants.size() != parts.size()) return std::nullopt;
  std::vector<std::pair<DeviceId, std::int32_t>> addend_of;
  for (std::size_t p = 0; p < parts.size(); ++p) addend_of.emplace_back(lanes[0][p], parts[p].addend);
  std::ranges::sort(addend_of);
  const auto addend = [&](DeviceId d) {
    const auto at = std::ranges::lower_bound(addend_of, d, {}, &std::pair<DeviceId, std::int32_t>::first);
    return at != addend_of.end() && at->first == d ? std::optional(at->second) : std::nullopt;
  };
  std::vector<Box> boxes;
  std::vector<RedistributionPart> wanted;  // as parts of which devices hold copies
  for (const RedistributionWant& w : wants) {
    if (w.devices.size() != copies || !w.box.inside(parts.front().box)) return std::nullopt;
    if (!std::ranges::all_of(w.devices, [&](DeviceId d) { return addend(d).has_value(); }))
      return std::nullopt;
    boxes.push_back(w.box);
    wanted.push_back({w.box, 0, w.devices});
  }
  const Box whole = bounds_of(boxes);
  if (!slice_dim(boxes, whole)) return std::nullopt;
  std::vector<RedistributionStep> steps;
  const auto add = [&](Collective kind, std::int32_t round, const Box& given,
                       std::vector<std::pair<DeviceId, Box>> gets, auto addend_given) {
    RedistributionStep& s = steps.emplace_back();
    s.kind = kind;
    s.round = setting.first_round + round;
    s.elements = given.elements();
    std::ranges::sort(gets, {}, &std::pair<DeviceId, Box>::first);
    for (const auto& [device, box] : gets) {
      s.group.push_back(device);
      if (setting.contents == StepContents::LeaveOut) continue;
      s.gives.emplace_back(given);
      s.gets.emplace_back(box);
      s.gives_addend.push_back(addend_given(device));
    }
  };
  for (const std::vector<DeviceId>& group : lanes_of(wanted, setting.prices)) {
    std::vector<std::pair<DeviceId, Box>> gets;
    for (std::size_t w = 0; w < group.size(); ++w) gets.emplace_back(group[w], wants[w].box);
    add(Collective::ReduceScatter, 0, whole, std::move(gets), [&](DeviceId d) { return *addend(d); });
  }
  for (const RedistributionWant& w : wants) {
    std::vector<std::pair<DeviceId, Box>> gets;
    for (const DeviceId d : w.devices) gets.emplace_back(d, w.box);
    add(Collective::AllReduce, 1, w.box, std::move(gets),
        [](DeviceId) { return RedistributionStep::brought_addends; });
  }
  return steps;
}

}  // namespace pipesim
