#include "taskgraph/proofs/lane_classes.h"

#include <algorithm>
#include <numeric>
#include <unordered_map>
#include <utility>

#include "sim/base/deadline.h"

namespace pipesim {
namespace {

using LaneColour = std::uint64_t;

LaneColour mix_colours(LaneColour a, LaneColour b) {
  const LaneColour x = (a ^ (b * 0x9E3779B97F4A7C15U)) * 0xFF51AFD7ED558CCDU;
  return x ^ (x >> 32);
}

LaneColour colour_of(std::int64_t value) { return static_cast<LaneColour>(value); }

template <class T>
std::size_t count_distinct(std::vector<T> values) {
  std::ranges::sort(values);
  return static_cast<std::size_t>(std::unique(values.begin(), values.end()) - values.begin());
}

class LaneColours {
 public:
  LaneColours(std::span<const std::int32_t> at_first, std::span<const TaskPattern> patterns)
      : patterns_(patterns), around_(at_first.size(), 0) {
    for (const std::int32_t number : at_first) of_lane_.push_back(mix_colours(colour_of(number), 1));
    for (std::size_t p = 0; p < patterns.size(); ++p) {
      std::vector<LaneColour>& colours = of_task_.emplace_back();
      for (const TaskPattern::Task& t : patterns[p].tasks) {
        LaneColour colour = mix_colours(colour_of(t.duration), p);
        for (const std::int32_t e : t.equal) colour = mix_colours(colour, colour_of(e));
        colours.push_back(colour);
      }
    }
    before_ = of_task_;
  }

  // Returns false where the devices fall into more than `most` classes.
  bool refine(std::span<const std::vector<std::size_t>> orders, std::span<const DeviceId> working,
              std::size_t most) {
    for (std::size_t classes = 0;;) {
      for (std::size_t p = 0; p < patterns_.size(); ++p) {
        stop_if_late();
        look_at(p, orders[p]);
      }
      before_ = of_task_;
      std::vector<LaneColour> devices;
      for (const DeviceId d : working) devices.push_back(of_lane_[d.index()]);
      if (count_distinct(std::move(devices)) > most) return false;
      std::size_t now = count_distinct(of_lane_);
      for (const std::vector<LaneColour>& colours : of_task_) now += count_distinct(colours);
      if (now <= classes) return true;
      classes = now;
    }
  }

  [[nodiscard]] std::span<const LaneColour> of_lane() const { return of_lane_; }
  [[nodiscard]] std::span<const std::vector<LaneColour>> of_task() const { return of_task_; }

 private:
  // A lane's colour is that of all its tasks in their order; a task learns those that come before it.
  void look_at(std::size_t p, std::span<const std::size_t> order) {
    for (const std::size_t i : order) {
      const TaskPattern::Task& t = patterns_[p].tasks[i];
      LaneColour lanes = 0, devices = 0, tasks = 0;
      for (const LaneUse use : t.lanes) lanes += mix_colours(of_lane_[use.lane.index()], colour_of(use.hold));
      for (const DeviceId d : t.before) devices += mix_colours(of_lane_[d.index()], 1);
      for (const DeviceId d : t.after) devices += mix_colours(of_lane_[d.index()], 2);
      for (const std::int32_t w : t.waits) tasks += mix_colours(before_[p][static_cast<std::size_t>(w)], 3);
      LaneColour& colour = of_task_[p][i];
      colour = mix_colours(mix_colours(mix_colours(colour, lanes), devices), tasks);
      for (const LaneUse use : t.lanes) {
        LaneColour& lane = of_lane_[use.lane.index()];
        lane = mix_colours(lane, colour + colour_of(use.hold));
      }
    }
    const std::span<const TaskPattern::Task> tasks = patterns_[p].tasks;
    for (std::size_t i = 0; i < tasks.size(); ++i) {
      for (const DeviceId d : tasks[i].before) around_[d.index()] += mix_colours(of_task_[p][i], 4);
      for (const DeviceId d : tasks[i].after) around_[d.index()] += mix_colours(of_task_[p][i], 5);
    }
    for (const TaskPattern::Task& t : tasks) {
      for (const std::span<const DeviceId> devices : {t.before, t.after}) {
        for (const DeviceId d : devices) {
          const LaneColour around = std::exchange(around_[d.index()], 0);
          if (around != 0) of_lane_[d.index()] = mix_colours(of_lane_[d.index()], around);
        }
      }
    }
  }

  std::span<const TaskPattern> patterns_;
  std::vector<LaneColour> of_lane_, around_;
  std::vector<std::vector<LaneColour>> of_task_, before_;  // by pattern; before: in the last round
};

/// Numbers met in one list, and what they were met with, to compare other lists with it.
class MetNumbers {
 public:
  explicit MetNumbers(std::size_t size) : list_(size, 0), value_(size, 0), seen_(size, 0) {}
  void begin() { ++lists_, distinct_ = 0; }
  // False when it was met with another value.
  bool meet(std::size_t number, std::int64_t value) {
    if (list_[number] == lists_) return value_[number] == value;
    list_[number] = lists_, value_[number] = value;
    ++distinct_;
    return true;
  }
  void begin_other() { ++others_, seen_distinct_ = 0; }
  bool see(std::size_t number, std::int64_t value) {
    if (list_[number] != lists_ || value_[number] != value) return false;
    if (seen_[number] != others_) ++seen_distinct_;
    seen_[number] = others_;
    return true;
  }
  [[nodiscard]] bool saw_all() const { return seen_distinct_ == distinct_; }

 private:
  std::vector<std::int64_t> list_, value_, seen_;
  std::int64_t lists_ = 0, others_ = 0;
  std::size_t distinct_ = 0, seen_distinct_ = 0;
};

class LaneClassProof {
 public:
  LaneClassProof(std::span<const TaskPattern> patterns, std::span<const std::vector<std::size_t>> orders,
                 const LaneClasses& classes)
      : patterns_(patterns),
        orders_(orders),
        classes_(classes),
        size_(classes.first.size(), 0),
        met_(classes.of_lane.size()),
        begin_(classes.first.size()),
        place_(classes.of_lane.size(), 0),
        length_(classes.first.size(), 0),
        listed_(classes.of_lane.size(), 0) {
    for (const std::int32_t c : classes.of_lane) ++size_[static_cast<std::size_t>(c)];
  }

  bool holds() {
    for (std::size_t p = 0; p < patterns_.size(); ++p) {
      const std::vector<std::vector<std::size_t>> members = members_of_classes(p);
      if (!tasks_are_alike(p, members) || !lanes_are_alike(p) || !devices_are_alike(p, members)) return false;
    }
    return true;
  }

 private:
  using Members = std::span<const std::vector<std::size_t>>;  // by class of tasks

  [[nodiscard]] std::size_t class_of(LaneId lane) const {
    return static_cast<std::size_t>(classes_.of_lane[lane.index()]);
  }
  [[nodiscard]] std::size_t class_of(DeviceId device) const {
    return static_cast<std::size_t>(classes_.of_lane[device.index()]);
  }
  [[nodiscard]] std::int32_t class_of(std::size_t p, std::size_t task) const {
    return classes_.of_task[p][task];
  }

  [[nodiscard]] std::vector<std::vector<std::size_t>> members_of_classes(std::size_t p) const {
    std::vector<std::vector<std::size_t>> members;
    for (std::size_t t = 0; t < patterns_[p].tasks.size(); ++t) {
      const auto c = static_cast<std::size_t>(class_of(p, t));
      if (c >= members.size()) members.resize(c + 1);
      members[c].push_back(t);
    }
    return members;
  }

  bool tasks_are_alike(std::size_t p, Members members) {
    const std::span<const TaskPattern::Task> tasks = patterns_[p].tasks;
    const auto same = [&](std::span<const std::size_t> of_class, auto list) {
      met_.begin();
      if (!list(tasks[of_class.front()], [&](std::size_t n, std::int64_t v) { return met_.meet(n, v); }))
        return false;
      for (const std::size_t t : of_class.subspan(1)) {
        met_.begin_other();
        if (!list(tasks[t], [&](std::size_t n, std::int64_t v) { return met_.see(n, v); }) || !met_.saw_all())
          return false;
      }
      return true;
    };
    for (const std::vector<std::size_t>& of_class : members) {
      const TaskPattern::Task& first = tasks[of_class.front()];
      if (first.duration <= 0) return false;
      for (const std::size_t t : of_class) {
        if (tasks[t].duration != first.duration || tasks[t].equal != first.equal) return false;
      }
      if (!same(of_class,
                [&](const TaskPattern::Task& t, auto note) {
                  return std::ranges::all_of(t.lanes,
                                             [&](LaneUse u) { return note(class_of(u.lane), u.hold); });
                }) ||
          !same(of_class,
                [&](const TaskPattern::Task& t, auto note) {
                  return std::ranges::all_of(t.before, [&](DeviceId d) { return note(class_of(d), 0); });
                }) ||
          !same(of_class, [&](const TaskPattern::Task& t, auto note) {
            return std::ranges::all_of(t.after, [&](DeviceId d) { return note(class_of(d), 0); });
          })) {
        return false;
      }
      if (!same_waits(p, of_class)) return false;
    }
    return true;
  }

  [[nodiscard]] std::vector<std::int32_t> classes_awaited(std::size_t p, std::size_t task) const {
    std::vector<std::int32_t> awaited;
    for (const std::int32_t w : patterns_[p].tasks[task].waits)
      awaited.push_back(class_of(p, static_cast<std::size_t>(w)));
    std::ranges::sort(awaited);
    awaited.erase(std::unique(awaited.begin(), awaited.end()), awaited.end());
    return awaited;
  }
  [[nodiscard]] bool same_waits(std::size_t p, std::span<const std::size_t> of_class) const {
    const std::vector<std::int32_t> first = classes_awaited(p, of_class.front());
    return std::ranges::all_of(of_class, [&](std::size_t t) { return classes_awaited(p, t) == first; });
  }

  // Each lane has what the first of its class has, in the same order.
  bool lanes_are_alike(std::size_t p) {
    const std::span<const TaskPattern::Task> tasks = patterns_[p].tasks;
    std::vector<std::vector<std::pair<std::int32_t, Nanoseconds>>> sequences;  // by class with any
    std::vector<std::size_t> met;
    list_first_tasks(p);
    for (const std::size_t t : orders_[p]) {
      for (const LaneUse use : tasks[t].lanes) {
        const std::size_t c = class_of(use.lane);
        if (length_[c]++ == 0) begin_[c] = met.size(), met.push_back(c), sequences.emplace_back();
        if (use.lane == classes_.first[c]) sequences[begin_[c]].emplace_back(class_of(p, t), use.hold);
      }
    }
    bool alike = true;
    for (std::size_t s = 0; s < met.size(); ++s) {
      alike = alike && length_[met[s]] == size_[met[s]] * sequences[s].size() && is_in_order(p, sequences[s]);
      length_[met[s]] = 0;
    }
    for (const std::size_t t : orders_[p]) {
      for (const LaneUse use : tasks[t].lanes) {
        const auto& sequence = sequences[begin_[class_of(use.lane)]];
        const std::size_t place = place_[use.lane.index()]++;
        alike = alike && place < sequence.size() && sequence[place] == std::pair(class_of(p, t), use.hold);
      }
    }
    for (const TaskPattern::Task& t : tasks) {
      for (const LaneUse use : t.lanes) place_[use.lane.index()] = 0;
    }
    return alike;
  }

  void list_first_tasks(std::size_t p) {
    first_task_.clear();
    for (std::size_t t = 0; t < patterns_[p].tasks.size(); ++t) {
      if (static_cast<std::size_t>(class_of(p, t)) == first_task_.size()) first_task_.push_back(t);
    }
  }

  // Whether the first tasks of these classes are in order, too, so that none comes twice.
  [[nodiscard]] bool is_in_order(std::size_t p,
                                 std::span<const std::pair<std::int32_t, Nanoseconds>> on_lane) const {
    const auto key = [&](std::int32_t c) {
      return patterns_[p].tasks[first_task_[static_cast<std::size_t>(c)]].order;
    };
    for (std::size_t i = 1; i < on_lane.size(); ++i) {
      if (!(key(on_lane[i - 1].first) < key(on_lane[i].first))) return false;
    }
    return true;
  }

  // Whether devices of a class are awaited by, and wait for, tasks of the same classes, taken as sets.
  bool devices_are_alike(std::size_t p, Members members) {
    return same_tasks(p, members, &TaskPattern::Task::before) &&
           same_tasks(p, members, &TaskPattern::Task::after);
  }
  // Whether the lists of every class of tasks have all devices of a class or none.
  bool same_tasks(std::size_t p, Members members, std::span<const DeviceId> TaskPattern::Task::*list) {
    for (const std::vector<std::size_t>& of_class : members) {
      ++listed_now_;
      met_classes_.clear();
      for (const std::size_t t : of_class) {
        for (const DeviceId d : patterns_[p].tasks[t].*list) {
          if (std::exchange(listed_[d.index()], listed_now_) == listed_now_) continue;
          const std::size_t c = class_of(d);
          if (length_[c]++ == 0) met_classes_.push_back(c);
        }
      }
      bool all = true;
      for (const std::size_t c : met_classes_) all &= std::exchange(length_[c], 0) == size_[c];
      if (!all) return false;
    }
    return true;
  }

  std::span<const TaskPattern> patterns_;
  std::span<const std::vector<std::size_t>> orders_;
  const LaneClasses& classes_;
  std::vector<std::size_t> size_;  // by class: lanes
  MetNumbers met_;
  // Scratch: by class, by lane, by class; then by class of tasks.
  std::vector<std::size_t> begin_, place_, length_, first_task_;
  std::vector<std::size_t> met_classes_;
  std::vector<std::int64_t> listed_;  // by device: when it was listed last
  std::int64_t listed_now_ = 0;
};

std::vector<std::int32_t> numbered(std::span<const LaneColour> colours) {
  std::unordered_map<LaneColour, std::int32_t> number;
  std::vector<std::int32_t> numbers;
  for (const LaneColour colour : colours)
    numbers.push_back(number.try_emplace(colour, static_cast<std::int32_t>(number.size())).first->second);
  return numbers;
}

// Orders each pattern's tasks by their keys.
std::vector<std::vector<std::size_t>> orders_of(std::span<const TaskPattern> patterns) {
  std::vector<std::vector<std::size_t>> orders;
  for (const TaskPattern& pattern : patterns) {
    std::vector<std::size_t>& order = orders.emplace_back(pattern.tasks.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::ranges::sort(order, {}, [&](std::size_t t) { return pattern.tasks[t].order; });
  }
  return orders;
}

}  // namespace

std::optional<LaneClasses> find_lane_classes(std::span<const std::int32_t> at_first,
                                             std::span<const TaskPattern> patterns,
                                             std::span<const DeviceId> working, std::size_t most) {
  const std::vector<std::vector<std::size_t>> orders = orders_of(patterns);
  LaneColours colours(at_first, patterns);
  if (!colours.refine(orders, working, most)) return std::nullopt;
  LaneClasses classes{numbered(colours.of_lane()), {}, {}};
  for (std::size_t l = 0; l < classes.of_lane.size(); ++l) {
    if (static_cast<std::size_t>(classes.of_lane[l]) == classes.first.size()) classes.first.emplace_back(l);
  }
  for (const std::vector<LaneColour>& of_tasks : colours.of_task())
    classes.of_task.push_back(numbered(of_tasks));
  for (std::size_t l = 0; l < at_first.size(); ++l) {
    if (at_first[l] != at_first[classes.first[static_cast<std::size_t>(classes.of_lane[l])].index()])
      return std::nullopt;
  }
  if (!LaneClassProof(patterns, orders, classes).holds()) return std::nullopt;
  return classes;
}

bool lanes_are_alike(const LaneClasses& classes, std::span<const TaskPattern> patterns) {
  return LaneClassProof(patterns, orders_of(patterns), classes).holds();
}

}  // namespace pipesim
