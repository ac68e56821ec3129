#include <algorithm>
#include <map>
#include <tuple>

#include "taskgraph/redistribution_candidates.h"

namespace pipesim {
namespace {

struct Source {
  Box box;
  const std::vector<DeviceId>* devices;
};

// `box` cut at every boundary of the sources, so that each piece lies inside or outside each of them.
std::vector<Box> atoms(const Box& box, const std::vector<Source>& sources) {
  return cut_at_edges(box, [&](auto visit) {
    for (const Source& s : sources) visit(s.box);
  });
}

// Sends of one component; remembers who has sent how much.
class DirectPlanner {
 public:
  DirectPlanner(const RedistributionComponent& component, const RedistributionSetting& setting)
      : component_(component), setting_(setting) {}

  std::vector<RedistributionStep> run() {
    std::vector<std::pair<DeviceId, const Box*>> wants;
    for (const RedistributionWant& w : component_.wants) {
      for (const DeviceId d : w.devices) wants.emplace_back(d, &w.box);
    }
    std::sort(wants.begin(), wants.end(), [](const auto& a, const auto& b) {
      return std::tie(a.first, *a.second) < std::tie(b.first, *b.second);
    });
    for (const auto& [device, box] : wants) fetch(device, *box);
    return steps();
  }

 private:
  void fetch(DeviceId to, const Box& box) {
    std::map<std::int32_t, std::vector<Source>> by_addend;
    for (const RedistributionPart& p : component_.parts) {
      if (const auto meet = intersection(p.box, box)) by_addend[p.addend].push_back({*meet, &p.devices});
    }
    for (const auto& [addend, sources] : by_addend) {
      for (const Box& piece : atoms(box, sources)) fetch_piece(to, piece, addend, sources);
    }
  }

  void fetch_piece(DeviceId to, const Box& piece, std::int32_t addend, const std::vector<Source>& sources) {
    using Rank = std::tuple<int, std::int64_t, DeviceId>;
    Rank best{INT32_MAX, 0, DeviceId()};
    for (const Source& s : sources) {
      if (!piece.inside(s.box)) continue;
      for (const DeviceId from : *s.devices) {
        const std::int64_t sent = from == to ? -1 : sent_[from];
        best = std::min(best, Rank{setting_.prices.distance(from, to), sent, from});
      }
    }
    const DeviceId from = std::get<2>(best);
    if (!from.valid() || from == to) return;  // nobody has it: the value is 0 there
    sent_[from] += piece.elements();
    messages_[{from, to, addend}].push_back(piece);
  }

  [[nodiscard]] std::vector<RedistributionStep> steps() const {
    std::vector<RedistributionStep> result;
    for (const auto& [key, pieces] : messages_) {
      RedistributionStep s;
      s.round = setting_.first_round;
      s.group = {std::get<0>(key), std::get<1>(key)};
      s.addend = std::get<2>(key);
      s.gives_addend = {s.addend};
      for (const Box& piece : pieces) {
        s.elements += piece.elements();
        s.gives.emplace_back(piece);
      }
      result.push_back(std::move(s));
    }
    return result;
  }

  const RedistributionComponent& component_;
  const RedistributionSetting& setting_;
  std::map<DeviceId, std::int64_t> sent_;
  std::map<std::tuple<DeviceId, DeviceId, std::int32_t>, std::vector<Box>> messages_;
};

}  // namespace

std::vector<RedistributionStep> direct_steps(const RedistributionComponent& component,
                                             const RedistributionSetting& setting) {
  return DirectPlanner(component, setting).run();
}

}  // namespace pipesim
