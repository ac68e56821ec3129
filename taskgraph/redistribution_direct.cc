#include <algorithm>
#include <span>
#include <tuple>

#include "taskgraph/redistribution_candidates.h"

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
  std::int64_t elements = 0;
  std::vector<Box> pieces;  // unless contents are left out
};

// Sends of one component; remembers who has sent how much.
class DirectPlanner {
 public:
  DirectPlanner(const RedistributionComponent& component, const RedistributionSetting& setting)
      : component_(component), setting_(setting), sent_(setting.prices.topology().num_devices(), 0) {}

  std::vector<RedistributionStep> run() {
    std::vector<std::pair<DeviceId, const Box*>> wants;
    for (const RedistributionWant& w : component_.wants) {
      for (const DeviceId d : w.devices) wants.emplace_back(d, &w.box);
    }
    std::sort(wants.begin(), wants.end(), [](const auto& a, const auto& b) {
      return std::tie(a.first, *a.second) < std::tie(b.first, *b.second);
    });
    DeviceId last;
    for (const auto& [device, box] : wants) {
      if (device != last) first_to_ = messages_.size();
      last = device;
      fetch(device, *box);
    }
    return steps();
  }

 private:
  void fetch(DeviceId to, const Box& box) {
    sources_.clear();
    for (const RedistributionPart& p : component_.parts) {
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
        const std::int64_t sent = from == to ? -1 : sent_[from.index()];
        best = std::min(best, Rank{setting_.prices.distance(from, to), sent, from});
      }
    }
    const DeviceId from = std::get<2>(best);
    if (!from.valid() || from == to) return;  // nobody has it: the value is 0 there
    sent_[from.index()] += piece.elements();
    Message& m = message(from, to, sources.front().addend);
    m.elements += piece.elements();
    if (setting_.contents == StepContents::List) m.pieces.push_back(piece);
  }

  // Those to one device stand together.
  Message& message(DeviceId from, DeviceId to, std::int32_t addend) {
    for (std::size_t i = first_to_; i < messages_.size(); ++i) {
      if (messages_[i].from == from && messages_[i].addend == addend) return messages_[i];
    }
    return messages_.emplace_back(Message{from, to, addend, 0, {}});
  }

  [[nodiscard]] std::vector<RedistributionStep> steps() {
    std::sort(messages_.begin(), messages_.end(), [](const Message& a, const Message& b) {
      return std::tie(a.from, a.to, a.addend) < std::tie(b.from, b.to, b.addend);
    });
    std::vector<RedistributionStep> result(messages_.size());
    for (std::size_t i = 0; i < messages_.size(); ++i) {
      const Message& m = messages_[i];
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
  std::vector<std::int64_t> sent_;  // by device
  std::vector<Source> sources_;     // scratch
  std::vector<Message> messages_;
  std::size_t first_to_ = 0;  // the first message to the device at hand
};

}  // namespace

std::vector<RedistributionStep> direct_steps(const RedistributionComponent& component,
                                             const RedistributionSetting& setting) {
  return DirectPlanner(component, setting).run();
}

}  // namespace pipesim
