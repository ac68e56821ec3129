#include <algorithm>
#include <span>
#include <tuple>
#include <utility>

#include "taskgraph/moving/box_cuts.h"
#include "taskgraph/moving/redistribution_candidates.h"

namespace pipesim {
namespace {

// A part that meets what is wanted.
struct Source {
  std::int32_t addend = 0;
  Box box;  // where they meet
  const std::vector<DeviceId>* devices;
};

struct Message {
  DeviceId from, to;
  std::int32_t addend = 0;
  std::int32_t earlier = -1;  // message of the same sender
  std::int64_t elements = 0;
  std::vector<Box> pieces;  // unless contents are left out
};

std::vector<DeviceId> holders_of(const std::vector<RedistributionPart>& parts) {
  std::vector<DeviceId> devices;
  for (const RedistributionPart& p : parts) devices.insert(devices.end(), p.devices.begin(), p.devices.end());
  std::ranges::sort(devices);
  devices.erase(std::unique(devices.begin(), devices.end()), devices.end());
  return devices;
}

// Sends of one component; remembers who has sent how much.
class DirectPlanner {
 public:
  DirectPlanner(const RedistributionComponent& component, const RedistributionSetting& setting)
      : component_(component),
        setting_(setting),
        boxes_(component.parts.size(), [&](std::size_t p) -> const Box& { return component.parts[p].box; }),
        senders_(holders_of(component.parts)),
        sent_(senders_.size(), 0),
        latest_from_(sent_.size(), -1) {}

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
    sources_.clear();
    const AscendingBoxes::Stretch near = boxes_.near(box);
    for (const RedistributionPart& p :
         std::span(component_.parts).subspan(near.begin, near.end - near.begin)) {
      if (p.box.meets(box)) sources_.push_back({p.addend, *intersection(p.box, box), &p.devices});
    }
    const auto smaller = [](const Source& a, const Source& b) { return a.addend < b.addend; };
    if (!std::is_sorted(sources_.begin(), sources_.end(), smaller))
      std::stable_sort(sources_.begin(), sources_.end(), smaller);
    for (std::size_t i = 0, end = 0; i < sources_.size(); i = end) {
      while (end < sources_.size() && sources_[end].addend == sources_[i].addend) ++end;
      fetch_addend(to, box, std::span(sources_).subspan(i, end - i));
    }
  }

  // The box cut at every boundary of the sources, so that each piece lies inside or outside each of them.
  void fetch_addend(DeviceId to, const Box& box, std::span<const Source> sources) {
    if (sources.size() == 1) return fetch_piece(to, sources.front().box, sources);
    const std::vector<Box> pieces = cut_at_edges(box, [&](auto visit) {
      for (const Source& s : sources) visit(s.box);
    });
    for (const Box& piece : pieces) fetch_piece(to, piece, sources);
  }

  void fetch_piece(DeviceId to, const Box& piece, std::span<const Source> sources) {
    using Rank = std::tuple<int, std::int64_t, DeviceId>;
    Rank best{INT32_MAX, 0, DeviceId()};
    for (const Source& s : sources) {
      if (!piece.inside(s.box)) continue;
      for (const DeviceId from : *s.devices) {
        const std::int64_t sent = from == to ? -1 : sent_[sender(from)];
        best = std::min(best, Rank{setting_.prices.distance(from, to), sent, from});
      }
    }
    const DeviceId from = std::get<2>(best);
    if (!from.valid() || from == to) return;  // nobody has it: the value is 0 there
    sent_[sender(from)] += piece.elements();
    Message& m = message(from, to, sources.front().addend);
    m.elements += piece.elements();
    if (setting_.contents == StepContents::List) m.pieces.push_back(piece);
  }

  [[nodiscard]] std::size_t sender(DeviceId device) const {
    return static_cast<std::size_t>(std::ranges::lower_bound(senders_, device) - senders_.begin());
  }

  // A sender's messages are linked, the latest first. Those to one device stand together, so the one that is
  // looked for is found soon.
  Message& message(DeviceId from, DeviceId to, std::int32_t addend) {
    std::int32_t& latest = latest_from_[sender(from)];
    for (std::int32_t i = latest; i >= 0; i = messages_[static_cast<std::size_t>(i)].earlier) {
      Message& m = messages_[static_cast<std::size_t>(i)];
      if (m.to != to) break;
      if (m.addend == addend) return m;
    }
    const std::int32_t earlier = std::exchange(latest, static_cast<std::int32_t>(messages_.size()));
    return messages_.emplace_back(Message{from, to, addend, earlier, 0, {}});
  }

  // By sender, receiver and addend.
  [[nodiscard]] std::vector<const Message*> ordered_messages() const {
    std::vector<const Message*> ordered;
    ordered.reserve(messages_.size());
    for (const std::int32_t latest : latest_from_) {
      const auto first = ordered.size();
      for (std::int32_t i = latest; i >= 0; i = ordered.back()->earlier)
        ordered.push_back(&messages_[static_cast<std::size_t>(i)]);
      const auto mine = std::span(ordered).subspan(first);
      std::ranges::reverse(mine);
      const auto place = [](const Message* m) { return std::tie(m->to, m->addend); };
      if (!std::ranges::is_sorted(mine, {}, place)) std::ranges::sort(mine, {}, place);
    }
    return ordered;
  }

  [[nodiscard]] std::vector<RedistributionStep> steps() const {
    const std::vector<const Message*> ordered = ordered_messages();
    std::vector<RedistributionStep> result(ordered.size());
    for (std::size_t i = 0; i < ordered.size(); ++i) {
      const Message& m = *ordered[i];
      RedistributionStep& s = result[i];
      s.round = setting_.first_round;
      s.group = {m.from, m.to};
      s.addend = m.addend;
      s.elements = m.elements;
      if (setting_.contents == StepContents::LeaveOut) continue;
      s.gives_addend = {m.addend};
      s.gives.assign(m.pieces.begin(), m.pieces.end());
    }
    return result;
  }

  const RedistributionComponent& component_;
  const RedistributionSetting& setting_;
  AscendingBoxes boxes_;            // of the parts
  std::vector<DeviceId> senders_;   // that hold a part, ascending
  std::vector<std::int64_t> sent_;  // by sender
  std::vector<Source> sources_;     // scratch
  std::vector<Message> messages_;
  std::vector<std::int32_t> latest_from_;  // by sender: its last message, or −1
};

}  // namespace

std::vector<RedistributionStep> direct_steps(const RedistributionComponent& component,
                                             const RedistributionSetting& setting) {
  return DirectPlanner(component, setting).run();
}

}  // namespace pipesim
