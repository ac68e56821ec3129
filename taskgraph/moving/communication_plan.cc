#include "taskgraph/moving/communication_plan.h"

#include <algorithm>
#include <utility>

#include "sim/base/allocated_bytes.h"
#include "sim/base/deadline.h"
#include "taskgraph/moving/expert_loads.h"

namespace pipesim {

namespace {

void append_rounded(const std::vector<LaneHold>& lanes, Nanoseconds duration, std::vector<LaneUse>& out) {
  for (const LaneHold& l : lanes) out.push_back(rounded(l, duration));
}

// Into how many pieces a step of so many bytes is cut.
std::int64_t pieces_of(std::int64_t size, Bytes largest_piece) {
  return std::max<std::int64_t>(1, (size + largest_piece.value - 1) / largest_piece.value);
}

// Appends the tasks of redistributions.
class PlanWriter {
 public:
  PlanWriter(std::int64_t element_bytes, double load, Bytes largest_piece, CommunicationPrices& prices,
             const CollectiveForms& forms, CommunicationPlan& out)
      : element_bytes_(element_bytes),
        load_(load),
        largest_piece_(largest_piece),
        prices_(prices),
        forms_(forms),
        out_(out) {}

  void add(const Redistribution& redistribution, std::int32_t term) {
    first_task_.clear();
    out_.tasks.reserve(out_.tasks.size() + redistribution.steps.size());
    for (std::size_t s = 0; s < redistribution.steps.size(); ++s) {
      add_step(redistribution.steps[s], term, static_cast<std::int32_t>(s));
    }
    first_task_.push_back(out_.tasks.size());
    for (std::size_t s = 0; s < redistribution.steps.size(); ++s) link(redistribution.steps[s], s);
    out_.local.insert(out_.local.end(), redistribution.local.begin(), redistribution.local.end());
  }

  // Call it once all tasks are there: spans point into lists that must not move any more.
  void finish() {
    out_.lane_uses.shrink_to_fit();
    out_.groups.shrink_to_fit();
    out_.earlier.shrink_to_fit();
    for (std::size_t t = 0; t < out_.tasks.size(); ++t) {
      CommunicationTask& task = out_.tasks[t];
      const Places& at = places_[t];
      task.lanes = std::span(out_.lane_uses).subspan(at.lanes.begin, at.lanes.size());
      task.group = std::span(out_.groups).subspan(at.group.begin, at.group.size());
      task.after = std::span(out_.earlier).subspan(at.after.begin, at.after.size());
    }
  }

 private:
  // A stretch of one of the plan's lists. Pieces of a step have the same group, and pieces of one size the
  // same lanes.
  struct Place {
    std::size_t begin = 0, end = 0;
    [[nodiscard]] std::size_t size() const { return end - begin; }
  };
  struct Places {
    Place lanes, group, after;
  };

  void add_step(const RedistributionStep& step, std::int32_t term, std::int32_t number) {
    first_task_.push_back(out_.tasks.size());
    const std::int64_t size = loaded(step.elements * element_bytes_, load_);
    const std::int64_t pieces = pieces_of(size, largest_piece_);
    Place group{out_.groups.size(), 0};
    out_.groups.insert(out_.groups.end(), step.group.begin(), step.group.end());
    group.end = out_.groups.size();
    for (std::int64_t p = 0; p < pieces; ++p) {
      stop_if_late();  // a step may have millions of pieces
      CommunicationTask& task = out_.tasks.emplace_back();
      task.kind = step.kind;
      task.round = step.round;
      task.turn = step.turn;
      task.piece = static_cast<std::int32_t>(p);
      task.pieces = static_cast<std::int32_t>(pieces);
      task.step = number;
      task.term = term;
      task.size = Bytes(size * (p + 1) / pieces - size * p / pieces);
      price(task, group, first_task_.back());
    }
  }

  // Takes the price of an earlier piece of the step, where one has the same size.
  void price(CommunicationTask& task, const Place& group, std::size_t first_of_step) {
    for (std::size_t t = out_.tasks.size() - 1; t-- > first_of_step;) {
      if (out_.tasks[t].size != task.size) continue;
      task.duration = out_.tasks[t].duration;
      places_.push_back({places_[t].lanes, group, {}});
      return;
    }
    const std::span<const DeviceId> members = std::span(out_.groups).subspan(group.begin, group.size());
    const CollectiveTime& time = time_of(task.kind, members, task.size, forms_, prices_);
    task.duration = to_nanoseconds(time.duration);
    Place lanes{out_.lane_uses.size(), 0};
    append_rounded(time.lanes, task.duration, out_.lane_uses);
    lanes.end = out_.lane_uses.size();
    places_.push_back({lanes, group, {}});
  }

  void link(const RedistributionStep& step, std::size_t s) {
    for (std::size_t t = first_task_[s]; t < first_task_[s + 1]; ++t) {
      stop_if_late();
      places_[t].after.begin = out_.earlier.size();
      for (const std::int32_t before : step.after) {
        const auto b = static_cast<std::size_t>(before);
        for (std::size_t e = first_task_[b]; e < first_task_[b + 1]; ++e) {
          out_.earlier.push_back(static_cast<std::int32_t>(e));
        }
      }
      places_[t].after.end = out_.earlier.size();
    }
  }

  std::int64_t element_bytes_;
  double load_;
  Bytes largest_piece_;
  CommunicationPrices& prices_;
  CollectiveForms forms_;
  CommunicationPlan& out_;
  std::vector<std::size_t> first_task_;
  std::vector<Places> places_;  // by task
};

// Where a task's lanes begin in the plan's list. Several tasks may have the same lanes.
std::size_t lanes_begin(const CommunicationPlan& plan, const CommunicationTask& task) {
  return static_cast<std::size_t>(task.lanes.data() - plan.lane_uses.data());
}

// How long all tasks of a plan together hold each lane.
std::vector<LaneUse> loads_of(const CommunicationPlan& plan, std::size_t num_lanes) {
  std::vector<LaneUse> uses = plan.lane_uses;
  std::vector<Nanoseconds> times(uses.size(), 0);  // how many tasks have the lanes that begin there
  for (const CommunicationTask& task : plan.tasks) {
    if (!task.lanes.empty()) ++times[lanes_begin(plan, task)];
  }
  for (const CommunicationTask& task : plan.tasks) {
    if (task.lanes.empty()) continue;
    const std::size_t begin = lanes_begin(plan, task);
    const Nanoseconds n = std::exchange(times[begin], 1);
    for (std::size_t u = begin; u < begin + task.lanes.size() && n > 1; ++u) uses[u].hold *= n;
  }
  return added_up(uses, num_lanes);
}

PlanExpansion expansion_of(const std::vector<CommunicationTask>& tasks, std::size_t num_devices) {
  PlanExpansion out;
  std::size_t contributed = 0, arrived = 0;
  for (const CommunicationTask& t : tasks) {
    contributed += contributors(t.kind, t.group).size();
    arrived += receivers(t.kind, t.group).size();
  }
  out.tasks.reserve(tasks.size());
  out.contributions.reserve(contributed);
  out.arrivals.reserve(arrived);
  for (std::size_t i = 0; i < tasks.size(); ++i) {
    const CommunicationTask& t = tasks[i];
    const auto number = static_cast<std::int32_t>(i);
    out.tasks.push_back({transfer_key_low(t.kind, t.round, t.turn, t.group, i, num_devices), t.duration,
                         t.lanes.data(), t.lanes.size()});
    for (const DeviceId d : contributors(t.kind, t.group)) out.contributions.push_back({number, d, t.term});
    for (const DeviceId d : receivers(t.kind, t.group)) out.arrivals.push_back({number, d});
    for (const std::int32_t before : t.after) out.waits.push_back({before, number});
  }
  return out;
}

Layout total(std::span<const LayoutId> terms, const LayoutTable& layouts) {
  std::vector<const Layout*> parts;
  for (const LayoutId id : terms) parts.push_back(&layouts[id]);
  return sum_of(parts);
}

// Call it after expansion_of().
void add_receive_buffers(CommunicationPlan& plan, std::int64_t element_bytes, double load,
                         const Layout& target, std::size_t num_devices) {
  std::vector<bool> receives(num_devices, false);
  for (const PlanExpansion::Arrival& a : plan.expansion.arrivals) receives[a.device.index()] = true;
  for (std::size_t i = 0; i < num_devices; ++i) {
    if (!receives[i]) continue;
    const DeviceId d(i);
    const Bytes size(
        loaded(target.elements_on(d) * element_bytes, load));  // 0 on a device that only helps to reduce
    if (size.value > 0) plan.received.emplace_back(d, size);
  }
}

std::vector<LaneUse> added_up_sorted(std::vector<LaneUse> uses) {
  std::ranges::sort(uses, {}, &LaneUse::lane);
  std::vector<LaneUse> sums;
  for (const LaneUse& use : uses) {
    if (sums.empty() || sums.back().lane != use.lane) sums.push_back({use.lane, 0});
    sums.back().hold += use.hold;
  }
  return sums;
}

}  // namespace

const CollectiveTime& time_of(Collective kind, std::span<const DeviceId> group, Bytes size,
                              const CollectiveForms& forms, CommunicationPrices& prices) {
  if (kind == Collective::AllGather && forms.gathers == GatherBy::Broadcast)
    return prices.broadcast_gather_time(group, size);
  if (kind == Collective::AllToAll && forms.route.nodes > 0)
    return prices.token_exchange_time(group, forms.route, size);
  return prices.time(kind, group, size);
}

LaneUse rounded(const LaneHold& hold, Nanoseconds duration) {
  return {hold.lane, std::min(to_nanoseconds(hold.hold), duration)};
}

Nanoseconds longest_hold(std::span<const LaneUse> lanes) {
  Nanoseconds longest = 0;
  for (const LaneUse& use : lanes) longest = std::max(longest, use.hold);
  return longest;
}

std::vector<LaneUse> added_up(std::span<const LaneUse> uses, std::size_t num_lanes) {
  constexpr std::size_t kSparse = 32;  // times as many lanes: sorting the uses takes less time
  if (uses.size() * kSparse < num_lanes) return added_up_sorted({uses.begin(), uses.end()});
  std::vector<Nanoseconds> held(num_lanes, -1);
  std::size_t different = 0;
  for (const LaneUse& use : uses) {
    Nanoseconds& sum = held[use.lane.index()];
    if (sum < 0) sum = 0, ++different;
    sum += use.hold;
  }
  std::vector<LaneUse> sums;
  sums.reserve(different);
  for (std::size_t l = 0; l < num_lanes; ++l) {
    if (held[l] >= 0) sums.push_back({LaneId(l), held[l]});
  }
  return sums;
}

std::vector<Redistribution> redistributions_of(std::span<const LayoutId> terms, LayoutId target,
                                               std::int64_t element_bytes, bool term_by_term,
                                               const LayoutTable& layouts, CommunicationPrices& prices,
                                               StepContents contents) {
  std::vector<Redistribution> result;
  const auto add = [&](std::span<const LayoutId> sum) {
    if (sum.size() == 1 && layouts[sum.front()].num_addends() <= 1) {  // as it is
      result.push_back(redistribute(layouts[sum.front()], layouts[target], element_bytes, prices, contents));
    } else {
      result.push_back(redistribute(total(sum, layouts), layouts[target], element_bytes, prices, contents));
    }
  };
  if (!term_by_term) add(terms);
  for (std::size_t i = 0; i < terms.size() && term_by_term; ++i) add(terms.subspan(i, 1));
  return result;
}

PricedTask priced_task(Collective kind, std::vector<DeviceId> group, Bytes size,
                       CommunicationPrices& prices) {
  PricedTask task;
  const CollectiveTime& time = prices.time(kind, group, size);
  task.kind = kind;
  task.size = size;
  task.group = std::move(group);
  task.duration = to_nanoseconds(time.duration);
  append_rounded(time.lanes, task.duration, task.lanes);
  return task;
}

Bytes CommunicationPlan::bytes() const {
  return Bytes(static_cast<std::int64_t>(
      sizeof *this + allocated_bytes(tasks, expansion.tasks, expansion.contributions, expansion.arrivals,
                                     expansion.waits, loads, local, received, communicators.groups, lane_uses,
                                     groups, earlier)));
}

bool CommunicationPlan::has_sends() const {
  return std::ranges::any_of(tasks, [](const CommunicationTask& t) { return t.kind == Collective::Send; });
}

namespace {

CommunicationPlan written(std::span<const Redistribution> redistributions, bool term_by_term, LayoutId target,
                          std::int64_t element_bytes, Bytes largest_piece, const LayoutTable& layouts,
                          CommunicationPrices& prices, double load, const CollectiveForms& forms) {
  CommunicationPlan plan;
  plan.target = target;
  plan.term_by_term = term_by_term;
  PlanWriter writer(element_bytes, load, largest_piece, prices, forms, plan);
  for (std::size_t i = 0; i < redistributions.size(); ++i) {
    writer.add(redistributions[i], term_by_term ? static_cast<std::int32_t>(i) : -1);
    plan.compared = plan.compared || redistributions[i].compared;
  }
  writer.finish();
  plan.expansion = expansion_of(plan.tasks, prices.topology().num_devices());
  std::sort(plan.local.begin(), plan.local.end());
  plan.local.erase(std::unique(plan.local.begin(), plan.local.end()), plan.local.end());
  add_receive_buffers(plan, element_bytes, load, layouts[target], prices.topology().num_devices());
  plan.loads = loads_of(plan, prices.topology().num_lanes());
  CommunicatorList needed(prices.groups());
  for (const CommunicationTask& t : plan.tasks) {
    if (t.piece == 0) needed.add(t.kind, t.group);
  }
  plan.communicators = needed.list();
  return plan;
}

}  // namespace

CommunicationPlan plan_communication(std::span<const LayoutId> terms, LayoutId target,
                                     std::int64_t element_bytes, Bytes largest_piece,
                                     const LayoutTable& layouts, CommunicationPrices& prices, double load,
                                     const CollectiveForms& forms) {
  const std::vector<Redistribution> together =
      redistributions_of(terms, target, element_bytes, false, layouts, prices, StepContents::LeaveOut);
  if (terms.size() > 1 && together.front().has_sends()) {
    const std::vector<Redistribution> each =
        redistributions_of(terms, target, element_bytes, true, layouts, prices, StepContents::LeaveOut);
    Seconds apart;
    for (const Redistribution& r : each) apart += estimated_time(r, element_bytes, prices);
    if (apart < estimated_time(together.front(), element_bytes, prices))
      return written(each, true, target, element_bytes, largest_piece, layouts, prices, load, forms);
  }
  return written(together, false, target, element_bytes, largest_piece, layouts, prices, load, forms);
}

// The pieces of a step are of two sizes at most.
std::vector<LaneUse> lane_loads(std::span<const LayoutId> terms, LayoutId target, std::int64_t element_bytes,
                                Bytes largest_piece, const LayoutTable& layouts, CommunicationPrices& prices,
                                const CollectiveForms& forms, const CollectiveVisit& visit) {
  const std::vector<Redistribution> together =
      redistributions_of(terms, target, element_bytes, false, layouts, prices, StepContents::LeaveOut);
  const auto tell = [&](Collective kind, std::span<const DeviceId> group, std::span<const LaneUse> lanes,
                        std::int64_t times) {
    if (visit && kind != Collective::Send) visit(group, longest_hold(lanes), times);
  };
  if (terms.size() > 1 && together.front().has_sends()) {
    CommunicationPlan plan =
        plan_communication(terms, target, element_bytes, largest_piece, layouts, prices, 1, forms);
    for (const CommunicationTask& task : plan.tasks) tell(task.kind, task.group, task.lanes, 1);
    return std::move(plan.loads);
  }
  std::vector<LaneUse> uses;
  for (const Redistribution& r : together) {
    for (const RedistributionStep& step : r.steps) {
      const std::int64_t size = step.elements * element_bytes, pieces = pieces_of(size, largest_piece);
      const std::int64_t larger = size % pieces;
      for (const auto& [bytes, times] :
           {std::pair(size / pieces, pieces - larger), std::pair(size / pieces + 1, larger)}) {
        if (times == 0) continue;
        const CollectiveTime& time = time_of(step.kind, step.group, Bytes(bytes), forms, prices);
        const std::size_t first = uses.size();
        append_rounded(time.lanes, to_nanoseconds(time.duration), uses);
        tell(step.kind, step.group, std::span(uses).subspan(first), times);
        for (std::size_t u = first; u < uses.size(); ++u) uses[u].hold *= times;
      }
    }
  }
  return added_up(uses, prices.topology().num_lanes());
}

CommunicationPlan plan_of(const Redistribution& redistribution, LayoutId target, std::int64_t element_bytes,
                          Bytes largest_piece, const LayoutTable& layouts, CommunicationPrices& prices,
                          double load, const CollectiveForms& forms) {
  return written(std::span(&redistribution, 1), false, target, element_bytes, largest_piece, layouts, prices,
                 load, forms);
}

CommunicationPlan plan_terms(std::span<const LayoutId> terms, LayoutId target, std::int64_t element_bytes,
                             Bytes largest_piece, const LayoutTable& layouts, CommunicationPrices& prices,
                             double load, const CollectiveForms& forms) {
  return written(
      redistributions_of(terms, target, element_bytes, true, layouts, prices, StepContents::LeaveOut), true,
      target, element_bytes, largest_piece, layouts, prices, load, forms);
}

// The pieces of a step stand together.
Seconds estimated_time(const CommunicationPlan& plan, CommunicationPrices& prices) {
  ConcurrentTime& concurrent = prices.concurrent();
  std::int32_t rounds = 0;
  for (const CommunicationTask& t : plan.tasks) rounds = std::max(rounds, t.round + 1);
  Seconds sum;
  for (std::int32_t round = 0; round < rounds; ++round) {
    Bytes size;
    for (const CommunicationTask& t : plan.tasks) {
      if (t.round != round) continue;
      size += t.size;
      if (t.piece + 1 < t.pieces) continue;
      concurrent.add(prices.time(t.kind, t.group, size));
      size = Bytes(0);
    }
    sum += concurrent.finish();
  }
  return sum;
}

bool same_lanes(std::span<const LaneUse> a, std::span<const LaneUse> b) {
  return std::ranges::equal(a, b, {}, &LaneUse::lane, &LaneUse::lane);
}

bool take_times(PricedTask& task, const PricedTask& from) {
  if (!same_lanes(task.lanes, from.lanes)) return false;
  task.duration = from.duration;
  std::ranges::copy(from.lanes, task.lanes.begin());
  return true;
}

bool same_tasks(const CommunicationPlan& a, const CommunicationPlan& b) {
  const auto same = [](const CommunicationTask& s, const CommunicationTask& t) {
    return s.kind == t.kind && s.round == t.round && s.turn == t.turn && s.piece == t.piece &&
           s.pieces == t.pieces && s.step == t.step && s.term == t.term && s.size == t.size &&
           std::ranges::equal(s.group, t.group) && std::ranges::equal(s.after, t.after);
  };
  return a.term_by_term == b.term_by_term && a.local == b.local && std::ranges::equal(a.tasks, b.tasks, same);
}

namespace {

void take_duration(CommunicationPlan& plan, std::size_t task, Nanoseconds duration) {
  plan.tasks[task].duration = plan.expansion.tasks[task].duration = duration;
}

}  // namespace

bool take_times(CommunicationPlan& plan, const CommunicationPlan& from) {
  if (plan.tasks.size() != from.tasks.size() || !same_lanes(plan.lane_uses, from.lane_uses)) return false;
  for (std::size_t i = 0; i < plan.tasks.size(); ++i) {
    if (plan.tasks[i].lanes.size() != from.tasks[i].lanes.size()) return false;
    take_duration(plan, i, from.tasks[i].duration);
  }
  std::ranges::copy(from.lane_uses, plan.lane_uses.begin());
  plan.loads = from.loads;
  return true;
}

bool reprice(CommunicationPlan& plan, const CollectiveForms& forms, CommunicationPrices& prices) {
  for (std::size_t i = 0; i < plan.tasks.size(); ++i) {
    const CommunicationTask& task = plan.tasks[i];
    const CollectiveTime& time = time_of(task.kind, task.group, task.size, forms, prices);
    if (time.lanes.size() != task.lanes.size()) return false;
    take_duration(plan, i, to_nanoseconds(time.duration));
    std::size_t use = lanes_begin(plan, task);
    for (const LaneHold& hold : time.lanes) {
      if (plan.lane_uses[use].lane != hold.lane) return false;
      plan.lane_uses[use++] = rounded(hold, task.duration);
    }
  }
  plan.loads = loads_of(plan, prices.topology().num_lanes());
  return true;
}

}  // namespace pipesim
