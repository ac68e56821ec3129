#include "taskgraph/moving/redistribution_between_meshes.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <tuple>
#include <utility>

#include "sim/simulate.h"
#include "taskgraph/links/transfer_order.h"
#include "taskgraph/moving/box_cuts.h"

namespace pipesim {
namespace {

using StepList = std::vector<RedistributionStep>;

// Times are not exact to a percent: so little is no reason for another way.
constexpr double kGain = 0.01;

struct UnitTask {
  Box box;
  std::vector<DeviceId> holders, wanters;  // ascending
};

struct UnitTasks {
  std::vector<UnitTask> list;
  bool whole_boxes = true;     // every box that is held or wanted meets one other at most
  bool several_nodes = false;  // some task is held in several nodes
};

// Lists the devices of each box of the layout.
std::vector<std::vector<DeviceId>> devices_by_box(const Layout& layout) {
  std::vector<std::vector<DeviceId>> devices(layout.boxes().size());
  for (const LayoutEntry& e : layout.entries()) devices[static_cast<std::size_t>(e.box)].push_back(e.device);
  return devices;
}

bool disjoint_boxes(const Layout& layout) { return disjoint({layout.boxes().begin(), layout.boxes().end()}); }

// Nothing when boxes overlap in part, or there are too many.
std::optional<UnitTasks> unit_tasks(const Layout& from, const Layout& to, const CommunicationPrices& prices) {
  if (from.boxes().size() > kMostUnitTasks || to.boxes().size() > kMostUnitTasks) return std::nullopt;
  if (!disjoint_boxes(from) || !disjoint_boxes(to)) return std::nullopt;
  const auto holders = devices_by_box(from), wanters = devices_by_box(to);
  UnitTasks found;
  std::vector<int> met(to.boxes().size(), 0);
  for (std::size_t h = 0; h < holders.size(); ++h) {
    int meets = 0;
    for (std::size_t w = 0; w < wanters.size(); ++w) {
      const std::optional<Box> box = intersection(from.boxes()[h], to.boxes()[w]);
      if (!box) continue;
      found.list.push_back({*box, holders[h], wanters[w]});
      found.whole_boxes = found.whole_boxes && ++meets == 1 && ++met[w] == 1;
    }
  }
  if (found.list.empty() || found.list.size() > kMostUnitTasks) return std::nullopt;
  const auto node = [&](DeviceId d) { return prices.topology().device(d).node; };
  found.several_nodes = std::ranges::any_of(found.list, [&](const UnitTask& t) {
    return std::ranges::any_of(t.holders, [&](DeviceId d) { return node(d) != node(t.holders.front()); });
  });
  return found;
}

// Returns a bound below the time of any steps, from what devices and nodes must get in, and what sole holders
// must send out.
Seconds least_time(const UnitTasks& tasks, const RedistributionSetting& setting) {
  const Borders& borders = setting.prices.borders();
  if (borders.empty()) return Seconds(0);
  std::vector<std::int64_t> elements(borders.size(), 0);
  for (const UnitTask& t : tasks.list) {
    const std::int64_t all = t.box.elements();
    const auto held_in = [&](std::int32_t node) {
      return std::ranges::any_of(t.holders, [&](DeviceId d) { return borders.node(d) == node; });
    };
    bool leaves = false;
    for (std::size_t w = 0; w < t.wanters.size(); ++w) {
      elements[borders.into(t.wanters[w])] += all;
      const std::int32_t node = borders.node(t.wanters[w]);
      if (w > 0 && borders.node(t.wanters[w - 1]) == node) continue;  // devices of a node stand together
      if (held_in(node)) continue;
      elements[borders.into_node(node)] += all;
      leaves = true;
    }
    if (t.holders.size() == 1) elements[borders.into(t.holders.front()) + 1] += all;
    const std::int32_t first = borders.node(t.holders.front());
    if (leaves && borders.node(t.holders.back()) == first) elements[borders.into_node(first) + 1] += all;
  }
  Seconds least;
  for (std::size_t b = 0; b < elements.size(); ++b) {
    if (elements[b] > 0) least = std::max(least, borders.least_time(b, elements[b] * setting.element_bytes));
  }
  return least;
}

// The ways of one unit task as steps; `number`: of the task.
class UnitSteps {
 public:
  UnitSteps(const UnitTask& task, std::size_t number, std::size_t most_nodes,
            const RedistributionSetting& setting)
      : task_(task), number_(number), setting_(setting) {
    list_senders(most_nodes);
  }

  // Those that are worth a look: from every node that has it, each way unless another is shorter and holds
  // its lanes no longer.
  std::vector<StepList> ways(StepContents contents) {
    contents_ = contents;
    std::vector<StepList> all;
    for (const std::vector<DeviceId>& senders : senders_) {
      senders_now_ = &senders;
      all.push_back(broadcast());
      if (task_.wanters.size() == 1) continue;
      all.push_back(messages());
      if (std::optional<StepList> steps = shares()) all.push_back(std::move(*steps));
    }
    return all;
  }

 private:
  [[nodiscard]] std::int32_t node(DeviceId d) const { return setting_.prices.topology().device(d).node; }

  // Lists by node the holders that are nearest to a device that wants the box. Where there are many nodes,
  // each task takes others.
  void list_senders(std::size_t most_nodes) {
    std::vector<std::tuple<int, std::int32_t, DeviceId>> holders;
    for (const DeviceId holder : task_.holders) {
      int nearest = INT32_MAX;
      for (const DeviceId d : task_.wanters) nearest = std::min(nearest, setting_.prices.distance(holder, d));
      holders.emplace_back(nearest, node(holder), holder);
    }
    std::ranges::sort(holders);
    std::vector<std::vector<DeviceId>> nodes;
    for (std::size_t i = 0; i < holders.size() && std::get<0>(holders[i]) == std::get<0>(holders[0]); ++i) {
      if (i == 0 || std::get<1>(holders[i]) != std::get<1>(holders[i - 1])) nodes.emplace_back();
      nodes.back().push_back(std::get<2>(holders[i]));
    }
    const std::size_t count = std::min(most_nodes, nodes.size());
    for (std::size_t i = 0; i < count; ++i) senders_.push_back(nodes[(number_ * count + i) % nodes.size()]);
  }

  [[nodiscard]] DeviceId sender(std::size_t message) const {
    return (*senders_now_)[(number_ + message) % senders_now_->size()];
  }

  RedistributionStep step(Collective kind, std::int32_t round, const Box& box) const {
    RedistributionStep s;
    s.kind = kind;
    s.round = round;
    s.component = static_cast<std::int32_t>(number_);
    s.elements = box.elements();
    return s;
  }

  RedistributionStep message(DeviceId from, DeviceId to, const Box& box) const {
    RedistributionStep s = step(Collective::Send, 0, box);
    s.group = {from, to};
    if (contents_ == StepContents::LeaveOut) return s;
    s.gives = {box};
    s.gives_addend = {0};
    return s;
  }

  [[nodiscard]] StepList broadcast() const {
    const DeviceId root = sender(0);
    if (task_.wanters.size() == 1) return {message(root, task_.wanters.front(), task_.box)};
    RedistributionStep s = step(Collective::Broadcast, 0, task_.box);
    s.group = {root};
    s.group.insert(s.group.end(), task_.wanters.begin(), task_.wanters.end());
    if (contents_ == StepContents::List) {
      s.gives.assign(s.group.size(), std::nullopt);
      s.gets.assign(s.group.size(), task_.box);
      s.gives[0] = task_.box, s.gets[0] = std::nullopt;
      s.gives_addend.assign(s.group.size(), 0);
    }
    return {std::move(s)};
  }

  [[nodiscard]] StepList messages() const {
    StepList steps;
    for (std::size_t i = 0; i < task_.wanters.size(); ++i)
      steps.push_back(message(sender(i), task_.wanters[i], task_.box));
    sort_by_sender(steps);
    return steps;
  }

  // Nothing where the box can't be shared out evenly.
  [[nodiscard]] std::optional<StepList> shares() const {
    StepList steps, gatherings;
    const std::vector<DeviceId>& all = task_.wanters;
    std::vector<std::size_t> dims(task_.box.dims());
    std::iota(dims.begin(), dims.end(), std::size_t{0});
    for (std::size_t i = 0, end = 0; i < all.size(); i = end) {
      while (end < all.size() && node(all[end]) == node(all[i])) ++end;
      if (end - i == 1) {
        steps.push_back(message(sender(i), all[i], task_.box));
        continue;
      }
      const auto pieces = pieces_of(task_.box, end - i, dims);
      if (!pieces) return std::nullopt;
      RedistributionStep gathering = step(Collective::AllGather, 1, task_.box);
      for (std::size_t j = i; j < end; ++j) {
        const Box& share = (*pieces)[j - i];
        steps.push_back(message(sender(j), all[j], share));
        gathering.group.push_back(all[j]);
        if (contents_ == StepContents::LeaveOut) continue;
        gathering.gives.emplace_back(share);
        gathering.gets.emplace_back(task_.box);
        gathering.gives_addend.push_back(RedistributionStep::all_addends);
      }
      gatherings.push_back(std::move(gathering));
    }
    sort_by_sender(steps);
    steps.insert(steps.end(), std::make_move_iterator(gatherings.begin()),
                 std::make_move_iterator(gatherings.end()));
    link_rounds(steps);
    return steps;
  }

  // Sorts by sender, as the steps of one turn are taken.
  static void sort_by_sender(StepList& steps) {
    std::ranges::stable_sort(steps, {}, [](const RedistributionStep& s) { return s.group.front(); });
  }

  const UnitTask& task_;
  std::size_t number_;
  const RedistributionSetting& setting_;
  std::vector<std::vector<DeviceId>> senders_;  // by node
  const std::vector<DeviceId>* senders_now_ = nullptr;
  StepContents contents_ = StepContents::LeaveOut;
};

TransferTask task_of(const RedistributionStep& step, const RedistributionSetting& setting) {
  const CollectiveTime& time =
      setting.prices.time(step.kind, step.group, Bytes(step.elements * setting.element_bytes));
  TransferTask task;
  task.duration = to_nanoseconds(time.duration);
  for (const LaneHold& hold : time.lanes)
    task.lanes.push_back({hold.lane, std::min(to_nanoseconds(hold.hold), task.duration)});
  return task;
}

TransferWay way_of(std::span<const RedistributionStep> steps, const RedistributionSetting& setting) {
  TransferWay way;
  for (const RedistributionStep& s : steps) {
    way.push_back(task_of(s, setting));
    way.back().after = s.after;
  }
  return way;
}

// Rounds up a time that can't be undercut, with a margin of kGain.
Nanoseconds good_enough(Seconds least) {
  return static_cast<Nanoseconds>(std::ceil(least.value * 1e9 * (1 + kGain)));
}

// Gives each unit task the best way, in the best order.
StepList ordered_unit_tasks(const UnitTasks& tasks, Seconds least, const RedistributionSetting& setting) {
  // A node that holds a task is as good as another, but for what it sends besides: some are enough.
  constexpr std::size_t kMostNodes = 4;
  const std::size_t most_nodes = std::clamp<std::size_t>(kMostUnitTasks / tasks.list.size(), 1, kMostNodes);
  std::vector<Transfer> transfers;
  for (std::size_t t = 0; t < tasks.list.size(); ++t) {
    Transfer& transfer = transfers.emplace_back();
    for (const StepList& steps :
         UnitSteps(tasks.list[t], t, most_nodes, setting).ways(StepContents::LeaveOut))
      transfer.push_back(way_of(steps, setting));
  }
  const TransferOrder order = order_transfers(transfers, good_enough(least));
  std::vector<std::int32_t> turn(order.order.size());
  for (std::size_t i = 0; i < order.order.size(); ++i)
    turn[static_cast<std::size_t>(order.order[i])] = static_cast<std::int32_t>(i);
  StepList all;
  for (std::size_t t = 0; t < tasks.list.size(); ++t) {
    std::vector<StepList> ways = UnitSteps(tasks.list[t], t, most_nodes, setting).ways(setting.contents);
    for (RedistributionStep& s : ways[static_cast<std::size_t>(order.way[t])]) {
      s.turn = turn[t];
      s.after.clear();
      all.push_back(std::move(s));
    }
  }
  link_rounds(all);
  return all;
}

// Orders the first round anew. `undisturbed`: the time of the steps if none waited for another's lanes.
StepList ordered_steps(std::span<const RedistributionStep> steps, Seconds undisturbed,
                       const RedistributionSetting& setting) {
  StepList result(steps.begin(), steps.end());
  std::vector<Transfer> transfers;
  std::vector<RedistributionStep*> first;
  for (RedistributionStep& s : result) {
    if (s.round > 0) continue;
    transfers.push_back({{task_of(s, setting)}});
    first.push_back(&s);
  }
  const TransferOrder order = order_transfers(transfers, good_enough(undisturbed));
  for (std::size_t i = 0; i < order.order.size(); ++i)
    first[static_cast<std::size_t>(order.order[i])]->turn = static_cast<std::int32_t>(i);
  return result;
}

}  // namespace

bool between_meshes(const Layout& from, const Layout& to) {
  if (from.num_addends() != 1 || from.empty() || to.empty()) return false;
  auto a = from.entries().begin(), b = to.entries().begin();
  while (a != from.entries().end() && b != to.entries().end()) {
    if (a->device == b->device) return false;
    a->device < b->device ? ++a : ++b;
  }
  return true;
}

Nanoseconds simulated_time(std::span<const RedistributionStep> steps, std::int64_t element_bytes,
                           CommunicationPrices& prices) {
  const RedistributionSetting setting{element_bytes, 0, false, prices};
  TaskDag dag;
  for (std::size_t i = 0; i < steps.size(); ++i) {
    const RedistributionStep& s = steps[i];
    const TransferTask task = task_of(s, setting);
    const std::uint64_t key =
        transfer_key_low(s.kind, s.round, s.turn, s.group, i, prices.topology().num_devices());
    dag.add_task({0, key}, task.duration, task.lanes);
    for (const std::int32_t before : s.after) dag.add_edge(TaskId(before), TaskId(i));
  }
  dag.finish();
  return simulate(dag).makespan;
}

std::optional<std::vector<RedistributionStep>> faster_between_meshes(
    std::span<const RedistributionStep> steps, const Layout& from, const Layout& to,
    const RedistributionSetting& setting) {
  constexpr std::size_t kMostSteps = 4 * kMostUnitTasks;
  if (steps.empty() || steps.size() > kMostSteps) return std::nullopt;
  const std::optional<UnitTasks> tasks = unit_tasks(from, to, setting.prices);
  const bool other_ways = tasks && tasks->list.size() > 1 && (!tasks->whole_boxes || tasks->several_nodes);
  if (!other_ways && steps.size() < 2) return std::nullopt;
  const auto gains = [](Nanoseconds time, Seconds other) {
    return static_cast<double>(time) * 1e-9 * (1 - kGain) > other.value;
  };
  Nanoseconds best = simulated_time(steps, setting.element_bytes, setting.prices);
  StepList result;
  const auto consider = [&](StepList other) {
    const Nanoseconds time = simulated_time(other, setting.element_bytes, setting.prices);
    if (!gains(best, Seconds(static_cast<double>(time) * 1e-9))) return;
    best = time, result = std::move(other);
  };
  const Seconds undisturbed = time_of_steps(steps, setting.element_bytes, setting.prices);
  if (gains(best, undisturbed)) consider(ordered_steps(steps, undisturbed, setting));
  if (other_ways) {
    const Seconds least = least_time(*tasks, setting);
    if (gains(best, least)) consider(ordered_unit_tasks(*tasks, least, setting));
  }
  if (result.empty()) return std::nullopt;
  return result;
}

}  // namespace pipesim
